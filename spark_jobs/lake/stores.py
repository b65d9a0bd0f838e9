"""The store behind an address."""

from functools import cache

from spark_jobs.config.settings import S3Settings, Settings
from spark_jobs.config.sources import Source
from spark_jobs.lake.file_store import FileStore
from spark_jobs.lake.object_store import ObjectStore


@cache
def open_store(url: str, s3: S3Settings) -> ObjectStore:
    """The store whose root is `url`, a path or `s3://bucket/prefix`; nothing is opened or checked yet."""
    if not url.startswith("s3://"):
        return FileStore(url)
    from spark_jobs.lake.s3_store import S3Store  # noqa: PLC0415 — loads boto3

    return S3Store(url, s3)


def open_lake(settings: Settings) -> ObjectStore:
    """The lake of this configuration."""
    return open_store(settings.lake, settings.s3)


def open_source(settings: Settings, source: Source) -> ObjectStore:
    """The store of a source."""
    return open_store(source.root, settings.s3)
