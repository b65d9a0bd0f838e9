# What infra/example/aws.yaml and infra/kubernetes are filled in with.
output "raw_bucket" {
  description = "Below it lie the sources' roots: `sources[].root`."
  value       = aws_s3_bucket.this["raw"].bucket
}

output "lake_bucket" {
  description = "Its prefix `lake` holds the lake."
  value       = aws_s3_bucket.this["lake"].bucket
}

output "region" {
  description = "`s3.region`."
  value       = data.aws_region.current.region
}

output "topics_database" {
  description = "`catalog.topics`."
  value       = aws_glue_catalog_database.topics.name
}

output "own_database" {
  description = "`catalog.namespace`."
  value       = aws_glue_catalog_database.own.name
}

output "job_role_arn" {
  description = "The role of jobs, for the service account onceover."
  value       = aws_iam_role.job.arn
}

output "gateway_policy_arn" {
  description = "To attach to what writes into the raw bucket."
  value       = aws_iam_policy.gateway.arn
}

output "reader_policy_arn" {
  description = "To attach to those who query."
  value       = aws_iam_policy.reader.arn
}
