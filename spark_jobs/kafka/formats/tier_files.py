"""Names of objects in tiered storage (facts §1.15): partition, start offset and segment id of an upload.

local      <topic>-<partition>-<topic id>/<start offset>-<segment id>.<part>
aiven      <topic>-<topic id>/<partition>/<start offset>-<segment id>.<log, indexes or rsm-manifest>
pinterest  <topic>-<partition>/<start offset>.<log, index or timeindex>
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from spark_jobs.kafka.formats.log_files import MAX_OFFSET, MAX_PARTITION, parse_file_name, parse_partition_dir

LOG, OFFSET_INDEX, TIME_INDEX, TXN_INDEX = "log", "index", "timeindex", "txnindex"
SNAPSHOT, LEADER_EPOCHS = "snapshot", "leader_epoch_checkpoint"
INDEXES, MANIFEST = "indexes", "rsm-manifest"
WATERMARK = "offset.wm"
"""Pinterest's uploader writes it into every directory of a partition."""
LOCAL_PARTS = (LOG, OFFSET_INDEX, TIME_INDEX, LEADER_EPOCHS, SNAPSHOT)
"""What every upload of LocalTieredStorage has, in the order in which it is written; a transaction index only
if there were aborted transactions."""
AIVEN_PARTS = (LOG, INDEXES, MANIFEST)
"""Likewise of Aiven's plugin: a manifest means that the others are whole."""
KEY_REFERENCE = re.compile(r"file:[^\r\n]+|env:[A-Za-z_][A-Za-z0-9_]*")
KEY_REFERENCE_FORM = "file:PATH or env:VARIABLE with a private key in PEM format, never the key itself"

_UUID = "[A-Za-z0-9_-]{22}"
_NAME = re.compile(rf"(?P<offset>[0-9]{{20}})-(?P<segment_id>{_UUID})\.(?P<part>[a-z_-]+)", re.ASCII)
_LOCAL_DIR = re.compile(rf"(?P<topic>[a-zA-Z0-9._-]+)-(?P<partition>[0-9]{{1,10}})-(?P<id>{_UUID})", re.ASCII)
_AIVEN_DIR = re.compile(rf"(?P<topic>[a-zA-Z0-9._-]+)-(?P<id>{_UUID})", re.ASCII)
_PARTITION = re.compile(r"[0-9]{1,10}", re.ASCII)
_REDPANDA = re.compile(r"(?:^|/)[^/]+/[0-9]+_[0-9]+/[0-9-]+-v[0-9]+\.log(?:\.[0-9]+)?$", re.ASCII)
_ICEBERG = re.compile(r"\.(?:parquet|puffin|metadata\.json|avro)$", re.ASCII)


class TierLayout(StrEnum):
    """Which plugin uploaded the objects of tiered storage: how it names and encodes them."""

    LOCAL = "local"
    AIVEN = "aiven"
    PINTEREST = "pinterest"


@dataclass(frozen=True, slots=True, kw_only=True)
class TierName:
    """An object's own name: `part` is what it has of the upload `segment_id`."""

    offset: int
    segment_id: str
    part: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TierFile:
    """One object of an upload that begins at `start_offset`; without ids where the layout has none."""

    topic: str
    partition: int
    topic_id: str
    start_offset: int
    segment_id: str
    part: str


def parse_tier_name(name: str) -> TierName | None:
    """The name of an object whose upload has an id; None for other names."""
    match = _NAME.fullmatch(name)
    if match is None or int(match["offset"]) > MAX_OFFSET:
        return None
    return TierName(offset=int(match["offset"]), segment_id=match["segment_id"], part=match["part"])


def parse_local(parts: Sequence[str]) -> TierFile | None:
    """An object of LocalTieredStorage by the parts of its path."""
    directory = _LOCAL_DIR.fullmatch(parts[-2]) if len(parts) > 1 else None
    return None if directory is None else _tier_file(directory, directory["partition"], parts[-1])


def parse_aiven(parts: Sequence[str]) -> TierFile | None:
    """An object of Aiven's plugin by the parts of its path."""
    if len(parts) < 3 or _PARTITION.fullmatch(parts[-2]) is None:
        return None
    directory = _AIVEN_DIR.fullmatch(parts[-3])
    return None if directory is None else _tier_file(directory, parts[-2], parts[-1])


def _tier_file(directory: re.Match[str], partition: str, name: str) -> TierFile | None:
    named = parse_tier_name(name)
    if named is None or int(partition) > MAX_PARTITION:
        return None
    return TierFile(
        topic=directory["topic"],
        partition=int(partition),
        topic_id=directory["id"],
        start_offset=named.offset,
        segment_id=named.segment_id,
        part=named.part,
    )


def parse_pinterest(parts: Sequence[str]) -> TierFile | None:
    """An object of Pinterest's uploader by the parts of its path: Kafka's own names."""
    directory = parse_partition_dir(parts[-2]) if len(parts) > 1 else None
    file = parse_file_name(parts[-1])
    if directory is None or file is None or directory.suffix is not None or file.suffix is not None:
        return None
    return TierFile(
        topic=directory.topic,
        partition=directory.partition,
        topic_id="",
        start_offset=file.offset,
        segment_id="",
        part=file.kind.value,
    )


def foreign_layout(paths: Sequence[str]) -> str:
    """Which known layout these objects have that is not read; empty if none."""
    if any(map(_REDPANDA.search, paths)):
        return "these are objects of Redpanda's tiered storage, whose log format is not Kafka's"
    if any(map(_ICEBERG.search, paths)):
        return "these are Iceberg tables: in its Iceberg mode Aiven's plugin stores no segments"
    return ""
