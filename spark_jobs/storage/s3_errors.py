"""What S3's and botocore's errors mean for a store."""

from collections.abc import Iterator
from contextlib import contextmanager

from boto3.exceptions import Boto3Error
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    NoCredentialsError,
    PartialCredentialsError,
    TokenRetrievalError,
)

from spark_jobs.storage.errors import (
    ObjectChanged,
    ObjectMissing,
    StorageError,
    StoreDenied,
    StoreUnavailable,
)
from spark_jobs.storage.keys import printable

NO_CREDENTIALS = (NoCredentialsError, PartialCredentialsError, TokenRetrievalError)

BY_CODE: dict[str, tuple[type[StorageError], str]] = {
    "NoSuchKey": (ObjectMissing, "there is no such object"),
    "NoSuchBucket": (StorageError, "there is no such bucket: create it, or correct the address"),
    "PreconditionFailed": (ObjectChanged, "changed while it was read: its ETag differs"),
    "ExpiredToken": (StoreDenied, "the credentials have expired: renew them"),
}
BY_STATUS: dict[int, tuple[type[StorageError], str]] = {
    401: (StoreDenied, "access denied: check the credentials and the bucket's policy"),
    403: (StoreDenied, "access denied: check the credentials and the bucket's policy"),
    404: (ObjectMissing, "there is no such object"),
    409: (StoreUnavailable, "another request got in between"),
    412: (ObjectChanged, "changed while it was read: its ETag differs"),
    429: (StoreUnavailable, "the server asks for fewer requests"),
}


@contextmanager
def translated(where: str) -> Iterator[None]:
    """Raises the store's own errors instead of botocore's, naming `where`."""
    try:
        yield
    except NO_CREDENTIALS as error:
        advice = "no AWS credentials found: set them in the environment, a profile or a role"
        raise StoreDenied(f"{printable(where)}: {advice}") from error
    except ClientError as error:
        raise _as_ours(error, where) from error
    except (BotoCoreError, Boto3Error) as error:
        if isinstance(error.__context__, ClientError):  # a transfer wraps the server's answer
            raise _as_ours(error.__context__, where) from error
        raise StoreUnavailable(f"{printable(where)}: no proper answer: {error}") from error


def status_of(error: ClientError) -> int:
    """The HTTP status that the server answered with."""
    return int(error.response["ResponseMetadata"]["HTTPStatusCode"])


def _meaning(error: ClientError) -> tuple[type[StorageError], str]:
    status = status_of(error)
    unknown = (StorageError, "the server refused the request")
    if status >= 500:
        unknown = (StoreUnavailable, "the server failed, also when asked again")
    return BY_CODE.get(error.response["Error"]["Code"], BY_STATUS.get(status, unknown))


def _as_ours(error: ClientError, where: str) -> StorageError:
    """Code and status as the server gave them; its free text is left out, it can repeat request details."""
    kind, advice = _meaning(error)
    return kind(f"{printable(where)}: {advice} ({error.response['Error']['Code']}, {status_of(error)})")
