"""An S3 prefix as an object store, through boto3; credentials come from the AWS chain."""

import re
import shutil
import tempfile
import time
import weakref
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from functools import cached_property
from hashlib import md5
from pathlib import Path
from typing import TYPE_CHECKING, Any

import boto3
from boto3.exceptions import Boto3Error
from boto3.s3.transfer import TransferConfig
from botocore.client import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    IncompleteReadError,
    NoCredentialsError,
    PartialCredentialsError,
    ReadTimeoutError,
    ResponseStreamingError,
    TokenRetrievalError,
)

from spark_jobs.config.settings import S3Settings
from spark_jobs.lake.checksums import CRC64NVME, MD5, SHA256, labelled
from spark_jobs.lake.errors import ObjectChanged, ObjectMissing, StorageError, StoreDenied, StoreUnavailable
from spark_jobs.lake.object_store import ObjectStat, checked, checked_prefix, printable
from spark_jobs.lake.scratch import in_use, scratch_directory

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
    409: (StoreUnavailable, "a concurrent request changed the object"),
    412: (ObjectChanged, "changed while it was read: its ETag differs"),
    429: (StoreUnavailable, "the server asks for fewer requests"),
}


@contextmanager
def translated(where: str) -> Iterator[None]:
    """Raises the errors of `lake.errors` instead of botocore's, naming `where`."""
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
        raise StoreUnavailable(f"{printable(where)}: no valid response: {error}") from error


def status_of(error: ClientError) -> int:
    """The HTTP status that the server answered with."""
    return int(error.response["ResponseMetadata"]["HTTPStatusCode"])


def _meaning(error: ClientError) -> tuple[type[StorageError], str]:
    status = status_of(error)
    unknown = (StorageError, "the server refused the request")
    if status >= 500:
        unknown = (StoreUnavailable, "the server failed at every attempt")
    return BY_CODE.get(error.response["Error"]["Code"], BY_STATUS.get(status, unknown))


def _as_ours(error: ClientError, where: str) -> StorageError:
    """The store's error with S3's code and status; S3's free text can repeat request details."""
    kind, advice = _meaning(error)
    return kind(f"{printable(where)}: {advice} ({error.response['Error']['Code']}, {status_of(error)})")


if TYPE_CHECKING:  # the stubs are a development dependency
    from mypy_boto3_s3.client import S3Client
    from mypy_boto3_s3.type_defs import GetObjectOutputTypeDef

BROKEN_BODY = (IncompleteReadError, ReadTimeoutError, ResponseStreamingError)
"""Errors while a body is read occur after the response, so botocore does not retry them."""
CONNECTIONS = 64
FIRST_PAUSE_S = 0.1
CONFLICT, PRECONDITION_FAILED, BEYOND_END = 409, 412, 416
WHOLE_MD5 = re.compile(r"[0-9a-f]{32}")
"""The ETag of an object that was uploaded in one part; with KMS or customer keys it is no MD5."""

CONTENT_TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
    "json": "application/json",
}
"""The content type of an object, by its suffix, so that browsers show pages in a bucket."""
NO_TYPE = "binary/octet-stream"


class S3Store:
    """Objects below `s3://bucket/prefix`; threads may share it, and a worker gets its own by pickling."""

    def __init__(self, url: str, settings: S3Settings) -> None:
        self._url, self._settings = url.rstrip("/"), settings
        self._bucket, _, prefix = self._url.removeprefix("s3://").partition("/")
        self._prefix = f"{prefix}/" if prefix else ""

    def __reduce__(self) -> tuple[Any, ...]:
        return S3Store, (self._url, self._settings)

    @property
    def url(self) -> str:
        return self._url

    def url_of(self, key: str) -> str:
        return f"{self._url}/{checked(key)}"

    def local_path(self, key: str) -> Path | None:
        checked(key)
        return None

    def list(self, prefix: str = "") -> Iterator[ObjectStat]:
        below = self._prefix + checked_prefix(prefix)
        with translated(f"{self._url}/{prefix}"):
            for page in self._client.get_paginator("list_objects_v2").paginate(
                Bucket=self._bucket, Prefix=below
            ):
                for found in page.get("Contents", []):
                    if not found["Key"].endswith("/"):  # a directory's placeholder
                        yield self._as_stat(
                            found["Key"], found["Size"], found.get("ETag"), found.get("LastModified")
                        )

    def stat(self, key: str) -> ObjectStat | None:
        try:
            with translated(self.url_of(key)):
                found = self._client.head_object(Bucket=self._bucket, Key=self._prefix + key)
        except ObjectMissing:
            return None
        return self._as_stat(
            self._prefix + key, found["ContentLength"], found.get("ETag"), found.get("LastModified")
        )

    def checksum(self, key: str, *, version: str = "") -> str:
        condition: dict[str, Any] = {"IfMatch": f'"{version}"'} if version else {}
        with translated(self.url_of(key)):
            found = self._client.head_object(
                Bucket=self._bucket, Key=self._prefix + key, ChecksumMode="ENABLED", **condition
            )
        return checksum_of(found)

    def read(self, key: str) -> bytes:
        return b"".join(self.chunks(key))

    def read_range(self, key: str, start: int, length: int, *, version: str = "") -> bytes:
        data, _ = self._get(key, start, length, version)
        return data

    @contextmanager
    def viewed(self, key: str, start: int, length: int, *, version: str = "") -> Iterator[bytes | memoryview]:
        yield self.read_range(key, start, length, version=version)

    def chunks(self, key: str, *, version: str = "") -> Iterator[bytes]:
        start, size = 0, 1
        while start < size:
            data, found = self._get(key, start, self._settings.part_bytes, version)
            yield data
            start, size, version = start + len(data), found.size, found.version

    def put(self, key: str, data: bytes, *, durable: bool = True) -> None:  # noqa: ARG002 - always so
        with translated(self.url_of(key)):
            self._put(key, data)

    def put_if_absent(self, key: str, data: bytes) -> bool:
        with translated(self.url_of(key)):
            for pause in self._pauses():
                try:
                    self._put(key, data, IfNoneMatch="*")
                except ClientError as error:
                    if status_of(error) == PRECONDITION_FAILED:
                        return self.read(key) == data
                    if status_of(error) != CONFLICT:
                        raise
                    time.sleep(pause)
                else:
                    return True
        raise StoreUnavailable(f"{self.url_of(key)}: concurrent writers changed the object at every attempt")

    def scratch(self) -> Path:
        return in_use(self._scratch)

    def make_durable(self, keys: Iterable[str]) -> None:
        """Nothing to do: S3 acknowledges an object only when it is durable."""

    def adopt(self, path: Path, key: str, *, durable: bool = True) -> None:  # noqa: ARG002 - likewise
        part = self._settings.part_bytes
        config = TransferConfig(multipart_threshold=part, multipart_chunksize=part, max_concurrency=4)
        with translated(self.url_of(key)):
            self._client.upload_file(str(path), self._bucket, self._prefix + key, Config=config)
        path.unlink()

    def delete(self, key: str) -> None:
        with translated(self.url_of(key)):
            self._client.delete_object(Bucket=self._bucket, Key=self._prefix + key)

    @cached_property
    def _client(self) -> "S3Client":
        settings = self._settings
        config = Config(
            connect_timeout=settings.connect_timeout_s,
            read_timeout=settings.read_timeout_s,
            retries={"mode": "standard", "total_max_attempts": settings.max_attempts},
            max_pool_connections=CONNECTIONS,
            s3={"addressing_style": settings.addressing},
            # Trailing checksums are refused by some S3-compatible servers; Content-MD5 is understood by all.
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
        )
        session = boto3.session.Session(region_name=settings.region)
        return session.client("s3", endpoint_url=settings.endpoint_url, config=config)

    @cached_property
    def _scratch(self) -> Path:
        directory = scratch_directory(Path(tempfile.gettempdir()))
        weakref.finalize(self, shutil.rmtree, directory, ignore_errors=True)
        return directory

    def _as_stat(self, key: str, size: int, etag: str | None, modified: datetime | None = None) -> ObjectStat:
        if etag is None:
            advice = "expected an ETag, which identifies the version that was listed"
            raise StorageError(
                f"{printable(f's3://{self._bucket}/{key}')}: {advice}, but the server sent none; "
                "use a server, or a proxy before it, that passes ETags on"
            )
        return ObjectStat(
            key=key.removeprefix(self._prefix),
            size=size,
            version=etag.strip('"'),
            modified_at=0 if modified is None else round(modified.timestamp() * 1000),
        )

    def _put(self, key: str, data: bytes, **conditions: Any) -> None:
        checksum = b64encode(md5(data, usedforsecurity=False).digest()).decode()
        self._client.put_object(
            Bucket=self._bucket,
            Key=self._prefix + key,
            Body=data,
            ContentMD5=checksum,
            ContentType=CONTENT_TYPES.get(key.rpartition(".")[2], NO_TYPE),
            **conditions,
        )

    def _get(self, key: str, start: int, length: int, version: str) -> tuple[bytes, ObjectStat]:
        """The bytes, and the stat of the whole object; retries when the connection breaks during the body."""
        problem: Exception | None = None
        for pause in self._pauses():
            try:
                with translated(self.url_of(key)):
                    return self._get_once(key, start, length, version)
            except StoreUnavailable as error:
                if not isinstance(error.__cause__, BROKEN_BODY):
                    raise
                problem = error
                time.sleep(pause)
        raise StoreUnavailable(f"{printable(self.url_of(key))}: no attempt got the whole body") from problem

    def _get_once(self, key: str, start: int, length: int, version: str) -> tuple[bytes, ObjectStat]:
        condition: dict[str, Any] = {"IfMatch": f'"{version}"'} if version else {}
        try:
            answer = self._client.get_object(
                Bucket=self._bucket,
                Key=self._prefix + key,
                Range=f"bytes={start}-{start + length - 1}",
                **condition,
            )
        except ClientError as error:
            if status_of(error) == BEYOND_END:
                return b"", ObjectStat(key=key, size=start, version=version)
            raise
        data = answer["Body"].read()
        return data, self._as_stat(self._prefix + key, _total_size(answer), answer.get("ETag"))

    def _pauses(self) -> Iterator[float]:
        """How long to wait after each failed attempt, in seconds."""
        yield from (FIRST_PAUSE_S * 2**attempt for attempt in range(self._settings.max_attempts))


def checksum_of(found: Mapping[str, Any]) -> str:
    """The best digest of the whole object in a HeadObject response; digests of parts are ignored."""
    kept = {SHA256: found.get("ChecksumSHA256", ""), CRC64NVME: found.get("ChecksumCRC64NVME", "")}
    if found.get("ChecksumType", "FULL_OBJECT") == "FULL_OBJECT":
        for algorithm, value in kept.items():
            if value and "-" not in value:
                return labelled(algorithm, b64decode(value).hex())
    etag = found.get("ETag", "").strip('"')
    is_md5 = WHOLE_MD5.fullmatch(etag) and found.get("ServerSideEncryption", "AES256") == "AES256"
    return labelled(MD5, etag) if is_md5 and not found.get("SSECustomerAlgorithm") else ""


def _total_size(answer: "GetObjectOutputTypeDef") -> int:
    """The size of the whole object; a server that ignores ranges has sent all of it."""
    content_range = answer.get("ContentRange", "")
    return int(content_range.rpartition("/")[2]) if content_range else answer["ContentLength"]
