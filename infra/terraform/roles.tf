# Who may do what: jobs read raw and write lake, gateways only write raw, analysts only read tables.
data "aws_caller_identity" "current" {}
data "aws_partition" "current" {}
data "aws_region" "current" {}

locals {
  glue      = "arn:${data.aws_partition.current.partition}:glue:${data.aws_region.current.region}:${data.aws_caller_identity.current.account_id}"
  databases = [aws_glue_catalog_database.topics.name, aws_glue_catalog_database.own.name]
  tables = concat(
    ["${local.glue}:catalog"],
    [for database in local.databases : "${local.glue}:database/${database}"],
    [for database in local.databases : "${local.glue}:table/${database}/*"],
  )
}

data "aws_iam_policy_document" "trust" {
  statement {
    actions = ["sts:AssumeRole", "sts:TagSession"]

    principals {
      type        = "Service"
      identifiers = var.trusted_services
    }
  }
}

resource "aws_iam_role" "job" {
  name               = "${var.name}-job"
  assume_role_policy = data.aws_iam_policy_document.trust.json
}

data "aws_iam_policy_document" "job" {
  statement {
    sid       = "FindObjects"
    actions   = ["s3:GetBucketLocation", "s3:ListBucket"]
    resources = [for bucket in aws_s3_bucket.this : bucket.arn]
  }

  statement {
    sid       = "ReadRaw"
    actions   = ["s3:GetObject"]
    resources = ["${aws_s3_bucket.this["raw"].arn}/*"]
  }

  statement {
    sid = "ReadAndWriteLake"
    actions = [
      "s3:AbortMultipartUpload",
      "s3:DeleteObject",
      "s3:GetObject",
      "s3:ListMultipartUploadParts",
      "s3:PutObject",
    ]
    resources = ["${aws_s3_bucket.this["lake"].arn}/*"]
  }

  statement {
    sid = "EnterTables"
    actions = [
      "glue:CreateDatabase",
      "glue:CreateTable",
      "glue:GetDatabase",
      "glue:GetDatabases",
      "glue:GetTable",
      "glue:GetTables",
      "glue:UpdateTable",
    ]
    resources = local.tables
  }

  dynamic "statement" {
    for_each = var.kms_key_arn == null ? [] : [var.kms_key_arn]

    content {
      sid       = "UseKey"
      actions   = ["kms:Decrypt", "kms:GenerateDataKey"]
      resources = [statement.value]
    }
  }
}

resource "aws_iam_role_policy" "job" {
  name   = "runs"
  role   = aws_iam_role.job.id
  policy = data.aws_iam_policy_document.job.json
}

data "aws_iam_policy_document" "gateway" {
  statement {
    sid       = "WriteRaw"
    actions   = ["s3:AbortMultipartUpload", "s3:PutObject"]
    resources = ["${aws_s3_bucket.this["raw"].arn}/*"]
  }
}

resource "aws_iam_policy" "gateway" {
  name        = "${var.name}-gateway"
  description = "For what captures batches or copies logs: it can add to raw, and read nothing."
  policy      = data.aws_iam_policy_document.gateway.json
}

data "aws_iam_policy_document" "reader" {
  statement {
    sid       = "FindFiles"
    actions   = ["s3:GetBucketLocation", "s3:ListBucket"]
    resources = [aws_s3_bucket.this["lake"].arn]
  }

  statement {
    sid       = "ReadLake"
    actions   = ["s3:GetObject"]
    resources = ["${aws_s3_bucket.this["lake"].arn}/*"]
  }

  statement {
    sid       = "FindTables"
    actions   = ["glue:GetDatabase", "glue:GetDatabases", "glue:GetTable", "glue:GetTables"]
    resources = local.tables
  }
}

resource "aws_iam_policy" "reader" {
  name        = "${var.name}-reader"
  description = "For people and engines that query the tables and look at the dashboard."
  policy      = data.aws_iam_policy_document.reader.json
}
