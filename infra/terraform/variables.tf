variable "name" {
  description = "Begins the name of everything here. Buckets are named <name>-raw and <name>-lake, worldwide unique."
  type        = string
  default     = "onceover-example"

  validation {
    condition     = can(regex("^[a-z0-9][a-z0-9-]{1,50}[a-z0-9]$", var.name))
    error_message = "Lower-case letters, digits and dashes, 3 to 52 of them."
  }
}

variable "topics_database" {
  description = "Glue database of the topics' tables: `catalog.topics` in onceover.yaml."
  type        = string
  default     = "topics"
}

variable "own_database" {
  description = "Glue database of Onceover's own tables: `catalog.namespace` in onceover.yaml."
  type        = string
  default     = "onceover"
}

variable "kms_key_arn" {
  description = "Key to encrypt both buckets with; without one, S3 encrypts with its own."
  type        = string
  default     = null
}

variable "trusted_services" {
  description = "AWS services that may hand the job's role to what they run."
  type        = list(string)
  default     = ["pods.eks.amazonaws.com"]
}

variable "raw_days_until_infrequent" {
  description = "Days after which raw objects move to cheaper storage: a run reads them once, a backfill seldom."
  type        = number
  default     = 60
}

variable "raw_days_until_gone" {
  description = "Days after which raw objects are deleted; null keeps them. Longer than the oldest run date that a backfill may need."
  type        = number
  default     = null
}

variable "days_until_old_versions_are_gone" {
  description = "How long an object that was replaced or deleted can be brought back."
  type        = number
  default     = 30
}
