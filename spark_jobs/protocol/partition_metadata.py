"""`partition.metadata`: which topic id a partition's directory belongs to (facts §1.10)."""

import base64
import re
from dataclasses import dataclass

from spark_jobs.protocol.errors import CorruptCheckpoint

CURRENT_VERSION = 0
_ZERO_UUID = bytes(16)
_FORMAT = re.compile(
    r"version:\s+(?P<version>[0-9]{1,9})\r?\n" r"topic_id:\s+(?P<topic_id>[A-Za-z0-9_-]{22})(==)?(\r?\n.*)?",
    re.ASCII | re.DOTALL,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionMetadata:
    """`topic_id` is a UUID in Kafka's spelling: 22 characters of unpadded URL-safe base64."""

    version: int = CURRENT_VERSION
    topic_id: str


def read_partition_metadata(data: bytes | memoryview, *, source: str = "<bytes>") -> PartitionMetadata:
    """The file's content; later versions are read as version 0, the zero UUID is refused."""
    text = bytes(data).decode(errors="replace")
    match = _FORMAT.fullmatch(text)
    if match is None:
        raise CorruptCheckpoint(
            source=source, position=0, expected="version and topic_id", found=repr(text[:80])
        )
    topic_id = match["topic_id"]
    if base64.urlsafe_b64decode(topic_id + "==") == _ZERO_UUID:
        raise CorruptCheckpoint(
            source=source, position=match.start("topic_id"), expected="a topic id", found="the zero UUID"
        )
    return PartitionMetadata(version=int(match["version"]), topic_id=topic_id)


def write_partition_metadata(metadata: PartitionMetadata) -> bytes:
    """The file's content; no newline at the end."""
    return f"version: {metadata.version}\ntopic_id: {metadata.topic_id}".encode()
