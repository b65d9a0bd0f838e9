"""Makes the cluster's buckets where they are missing, and ends."""

import os
from pathlib import Path

import boto3
from botocore.exceptions import ClientError

from infra.cluster.topology import BUCKETS
from spark_jobs.config.load import load_settings
from spark_jobs.config.settings import S3Settings

ALREADY_OURS = "BucketAlreadyOwnedByYou"


def main() -> None:
    make_buckets(load_settings(Path(os.environ["ONCEOVER_CONFIG"])).s3)


def make_buckets(s3: S3Settings) -> None:
    """Safe to repeat; credentials come from the environment."""
    client = boto3.client("s3", endpoint_url=s3.endpoint_url, region_name=s3.region)
    for bucket in BUCKETS:
        try:
            client.create_bucket(Bucket=bucket)
        except ClientError as error:
            if error.response["Error"]["Code"] != ALREADY_OURS:
                raise


if __name__ == "__main__":
    main()
