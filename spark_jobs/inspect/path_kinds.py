"""What a path is: by its name if it follows Kafka's naming, else by its first bytes."""

from enum import StrEnum
from pathlib import Path

from spark_jobs.inspect.segment_files import Buffer, open_segment
from spark_jobs.kafka.errors import CorruptData, TornBatch, ZeroFilledTail
from spark_jobs.kafka.formats.log_files import (
    CLEAN_SHUTDOWN_FILE,
    CLEANER_OFFSET_CHECKPOINT,
    LEADER_EPOCH_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    META_PROPERTIES,
    PARTITION_METADATA,
    QUORUM_STATE,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
    LogFileKind,
    parse_file_name,
    parse_partition_dir,
)
from spark_jobs.kafka.formats.record_batch import MAGIC_OFFSET
from spark_jobs.kafka.log.segment import scan
from spark_jobs.reading.errors import NotKafka

OFFSET_CHECKPOINTS = (
    RECOVERY_POINT_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
    CLEANER_OFFSET_CHECKPOINT,
)
_KNOWN_MAGIC = (0, 1, 2)


class Kind(StrEnum):
    """What `inspect` can show."""

    SEGMENT = "segment"
    SNAPSHOT = "snapshot"
    TXN_INDEX = "transaction_index"
    OFFSET_INDEX = "offset_index"
    TIME_INDEX = "time_index"
    LEADER_EPOCHS = "leader_epoch_checkpoint"
    OFFSETS = "offset_checkpoint"
    METADATA = "partition_metadata"
    META_PROPERTIES = "meta_properties"
    QUORUM_STATE = "quorum_state"
    CLEAN_SHUTDOWN = "clean_shutdown"
    PARTITION = "partition"
    LOG_DIRECTORY = "log_directory"


_BY_NAME = {
    LEADER_EPOCH_CHECKPOINT: Kind.LEADER_EPOCHS,
    PARTITION_METADATA: Kind.METADATA,
    META_PROPERTIES: Kind.META_PROPERTIES,
    QUORUM_STATE: Kind.QUORUM_STATE,
    CLEAN_SHUTDOWN_FILE: Kind.CLEAN_SHUTDOWN,
    **dict.fromkeys(OFFSET_CHECKPOINTS, Kind.OFFSETS),
}
_BY_EXTENSION = {
    LogFileKind.LOG: Kind.SEGMENT,
    LogFileKind.INDEX: Kind.OFFSET_INDEX,
    LogFileKind.TIME_INDEX: Kind.TIME_INDEX,
    LogFileKind.TXN_INDEX: Kind.TXN_INDEX,
    LogFileKind.SNAPSHOT: Kind.SNAPSHOT,
}


def recognise(path: Path) -> Kind:
    """Recognises `path`."""
    if path.is_dir():
        return _directory(path)
    if not path.exists():
        raise NotKafka(f"{path}: there is no such file or directory")
    if not path.is_file():
        raise NotKafka(f"{path}: neither a file nor a directory")
    named = parse_file_name(path.name)
    if named is None and path.name in _BY_NAME:
        return _BY_NAME[path.name]
    if named is None or named.kind is LogFileKind.LOG:
        check_first_batch(path, is_named=named is not None)
    return _BY_EXTENSION[named.kind] if named else Kind.SEGMENT


def _directory(path: Path) -> Kind:
    entries = list(path.iterdir())
    if any(parse_file_name(entry.name) for entry in entries if entry.is_file()):
        return Kind.PARTITION
    if any(entry.name in OFFSET_CHECKPOINTS for entry in entries) or any(map(is_partition, entries)):
        return Kind.LOG_DIRECTORY
    raise NotKafka(
        f"{path}: neither a partition's directory (no segment files) nor a log directory (no partitions)"
    )


def is_partition(path: Path) -> bool:
    """Whether this is the directory of a partition that a broker serves."""
    named = parse_partition_dir(path.name)
    return named is not None and named.suffix is None and path.is_dir()


def check_first_batch(path: Path, *, is_named: bool) -> None:
    """Refuses a file that does not begin with a batch; problems behind it become remarks.

    Kafka's own name is enough for an empty file, a wrong checksum or a batch that was never finished.
    """
    data = open_segment(path)
    try:
        if next(scan(data, source=path.name, check_crc=not is_named), None) is None and not is_named:
            raise NotKafka(f"{path}: not a Kafka file: it is empty, and its name is none of Kafka's")
    except CorruptData as problem:
        if not (is_named and _may_be_unfinished(data, problem)):
            reason = f"it does not begin with a record batch ({problem})"
            raise NotKafka(f"{path}: not a Kafka file: {reason}") from None


def _may_be_unfinished(data: Buffer, problem: CorruptData) -> bool:
    if isinstance(problem, TornBatch):
        return len(data) <= MAGIC_OFFSET or data[MAGIC_OFFSET] in _KNOWN_MAGIC
    return isinstance(problem, ZeroFilledTail)
