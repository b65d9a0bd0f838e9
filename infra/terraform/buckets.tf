# Two buckets: `raw` holds what producers sent and what brokers wrote, `lake` what Onceover makes of it.
locals {
  buckets = toset(["raw", "lake"])
}

resource "aws_s3_bucket" "this" {
  for_each = local.buckets
  bucket   = "${var.name}-${each.key}"
}

resource "aws_s3_bucket_versioning" "this" {
  for_each = aws_s3_bucket.this
  bucket   = each.value.id

  versioning_configuration {
    status = "Enabled"
  }
}

resource "aws_s3_bucket_server_side_encryption_configuration" "this" {
  for_each = aws_s3_bucket.this
  bucket   = each.value.id

  rule {
    bucket_key_enabled = true

    apply_server_side_encryption_by_default {
      sse_algorithm     = var.kms_key_arn == null ? "AES256" : "aws:kms"
      kms_master_key_id = var.kms_key_arn
    }
  }
}

resource "aws_s3_bucket_public_access_block" "this" {
  for_each = aws_s3_bucket.this
  bucket   = each.value.id

  block_public_acls       = true
  block_public_policy     = true
  ignore_public_acls      = true
  restrict_public_buckets = true
}

resource "aws_s3_bucket_ownership_controls" "this" {
  for_each = aws_s3_bucket.this
  bucket   = each.value.id

  rule {
    object_ownership = "BucketOwnerEnforced"
  }
}

data "aws_iam_policy_document" "encrypted_transport" {
  for_each = aws_s3_bucket.this

  statement {
    sid       = "DenyPlainText"
    effect    = "Deny"
    actions   = ["s3:*"]
    resources = [each.value.arn, "${each.value.arn}/*"]

    principals {
      type        = "*"
      identifiers = ["*"]
    }

    condition {
      test     = "Bool"
      variable = "aws:SecureTransport"
      values   = ["false"]
    }
  }
}

resource "aws_s3_bucket_policy" "this" {
  for_each = aws_s3_bucket.this
  bucket   = each.value.id
  policy   = data.aws_iam_policy_document.encrypted_transport[each.key].json

  depends_on = [aws_s3_bucket_public_access_block.this]
}

resource "aws_s3_bucket_lifecycle_configuration" "raw" {
  bucket     = aws_s3_bucket.this["raw"].id
  depends_on = [aws_s3_bucket_versioning.this]

  rule {
    id     = "expire-old-runs"
    status = "Enabled"

    filter {}

    transition {
      days          = var.raw_days_until_infrequent
      storage_class = "STANDARD_IA"
    }

    dynamic "expiration" {
      for_each = var.raw_days_until_gone == null ? [] : [var.raw_days_until_gone]

      content {
        days = expiration.value
      }
    }

    noncurrent_version_expiration {
      noncurrent_days = var.days_until_old_versions_are_gone
    }

    abort_incomplete_multipart_upload {
      days_after_initiation = 7
    }
  }
}

# Nothing current expires in the lake: runs, states and tables refer to each other.
resource "aws_s3_bucket_lifecycle_configuration" "lake" {
  bucket     = aws_s3_bucket.this["lake"].id
  depends_on = [aws_s3_bucket_versioning.this]

  rule {
    id     = "old-versions-go"
    status = "Enabled"

    filter {}

    noncurrent_version_expiration {
      noncurrent_days = var.days_until_old_versions_are_gone
    }

    abort_incomplete_multipart_upload {
      days_after_initiation = 7
    }
  }
}
