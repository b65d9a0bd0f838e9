"""Addresses on the command line: a path, or `s3://bucket/prefix` with the server's address."""

from pydantic import TypeAdapter, ValidationError

from spark_jobs.config.fields import Location
from spark_jobs.config.settings import S3Settings
from spark_jobs.kafka.errors import OnceoverError
from spark_jobs.lake.object_store import ObjectStore, printable
from spark_jobs.lake.stores import open_store


class BadAddress(OnceoverError):
    """An address that names no place."""


def open_address(address: str, endpoint_url: str | None = None) -> ObjectStore:
    """The store at the address; nothing is opened or checked yet."""
    try:
        url: str = TypeAdapter(Location).validate_python(address)
        s3 = S3Settings.model_validate({"endpoint_url": endpoint_url})
    except ValidationError as error:
        raise BadAddress(f"{printable(address)}: expected {error.errors()[0]['msg']}") from None
    return open_store(url, s3)
