"""Names in a log directory (facts §1.1): the kind of a directory or file, by its name alone."""

import re
from dataclasses import dataclass
from enum import StrEnum

MAX_OFFSET = 2**63 - 1
MAX_PARTITION = 2**31 - 1

LEADER_EPOCH_CHECKPOINT = "leader-epoch-checkpoint"
PARTITION_METADATA = "partition.metadata"
RECOVERY_POINT_CHECKPOINT = "recovery-point-offset-checkpoint"
LOG_START_OFFSET_CHECKPOINT = "log-start-offset-checkpoint"
REPLICATION_OFFSET_CHECKPOINT = "replication-offset-checkpoint"
CLEANER_OFFSET_CHECKPOINT = "cleaner-offset-checkpoint"
CLEAN_SHUTDOWN_FILE = ".kafka_cleanshutdown"
CLUSTER_METADATA_DIR = "__cluster_metadata-0"
META_PROPERTIES = "meta.properties"
QUORUM_STATE = "quorum-state"
OWN_TOPICS = frozenset(
    {"__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata"}
)
"""Kafka's internal topics; other names that begin with `__` are ordinary topics."""


class LogFileKind(StrEnum):
    """Extension of a file whose name begins with an offset."""

    LOG = "log"
    INDEX = "index"
    TIME_INDEX = "timeindex"
    TXN_INDEX = "txnindex"
    SNAPSHOT = "snapshot"


class FileSuffix(StrEnum):
    """Suffix of files that a broker is adding or deleting."""

    DELETED = "deleted"
    CLEANED = "cleaned"
    SWAP = "swap"


class DirSuffix(StrEnum):
    """Suffix of the directories of partitions that a broker no longer, or not yet, serves."""

    DELETE = "delete"
    FUTURE = "future"
    STRAY = "stray"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFile:
    """A segment's file; `offset` is its base offset, but a snapshot's is the exclusive end of its state."""

    offset: int
    kind: LogFileKind
    suffix: FileSuffix | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionDir:
    """The directory of one partition; `suffix` is None for one that is served."""

    topic: str
    partition: int
    suffix: DirSuffix | None = None


_FILE = re.compile(
    rf"(?P<offset>[0-9]{{1,20}})\.(?P<kind>{'|'.join(LogFileKind)})(\.(?P<suffix>{'|'.join(FileSuffix)}))?",
    re.ASCII,
)
_DIR = re.compile(r"(?P<topic>\S+)-(?P<partition>[0-9]{1,10})", re.ASCII)
_SUFFIXED_DIR = re.compile(rf"(?P<name>\S+)\.[^\s.]+-(?P<suffix>{'|'.join(DirSuffix)})")


def parse_partition_dir(name: str) -> PartitionDir | None:
    """The partition directory called `name`; None if it is none."""
    suffixed = _SUFFIXED_DIR.fullmatch(name)
    match = _DIR.fullmatch(suffixed["name"] if suffixed else name)
    if match is None or int(match["partition"]) > MAX_PARTITION:
        return None
    suffix = DirSuffix(suffixed["suffix"]) if suffixed else None
    return PartitionDir(topic=match["topic"], partition=int(match["partition"]), suffix=suffix)


def parse_file_name(name: str) -> LogFile | None:
    """The file called `name` in a partition's directory; None if its name has no offset and kind."""
    match = _FILE.fullmatch(name)
    if match is None or int(match["offset"]) > MAX_OFFSET:
        return None
    suffix = FileSuffix(match["suffix"]) if match["suffix"] else None
    return LogFile(offset=int(match["offset"]), kind=LogFileKind(match["kind"]), suffix=suffix)


def segment_file_name(offset: int, kind: LogFileKind) -> str:
    """Name of the file of that kind: 20 digits and the extension."""
    return f"{offset:020d}.{kind}"
