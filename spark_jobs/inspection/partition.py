"""A partition's directory: its segments in order, seen as one log."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from spark_jobs.inspection.isolation import Isolation
from spark_jobs.inspection.records import Rows
from spark_jobs.inspection.segments import Advance, Segment, read_segment
from spark_jobs.inspection.visibility import Visibility, decide
from spark_jobs.kernels.columns import HeaderColumns, allocate, concatenate
from spark_jobs.protocol.checkpoint import read_offsets
from spark_jobs.protocol.errors import CorruptData
from spark_jobs.protocol.log_files import (
    LOG_START_OFFSET_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
    LogFile,
    LogFileKind,
    parse_file_name,
    parse_partition_dir,
)

TRANSACTION_STATE = "__transaction_state"
CONSUMER_OFFSETS = "__consumer_offsets"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLog:
    """All batches of a partition; `topic` and `partition` are None if the directory's name does not tell."""

    path: Path
    topic: str | None
    partition: int | None
    segments: tuple[Segment, ...]
    batches: HeaderColumns
    visibility: Visibility
    high_watermark: int | None
    """As checkpointed beside the partition's directory."""

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def is_internal(self) -> bool:
        """Kafka's own topics are no part of what a consumer of the data reads."""
        return self.topic is not None and self.topic.startswith("__")

    def visible_rows(self, isolation: Isolation) -> Iterator[tuple[Segment, Rows]]:
        """For each segment the batches that a consumer gets; one with a wrong checksum is none of them."""
        visible = self.visibility.visible(self.batches, isolation) & self.batches.crc_ok
        first = 0
        for segment in self.segments:
            yield segment, np.flatnonzero(visible[first : first + segment.batches.rows])
            first += segment.batches.rows


def log_files(directory: Path) -> list[tuple[LogFile, Path]]:
    """The files whose name begins with an offset, by offset; what is on its way in or out is left out."""
    named = ((parse_file_name(path.name), path) for path in directory.iterdir() if path.is_file())
    found = [(file, path) for file, path in named if file is not None and file.suffix is None]
    return sorted(found, key=lambda pair: (pair[0].offset, pair[0].kind))


def read_partition(
    directory: Path, advance: Advance = lambda _: None, *, fast: bool | None = None
) -> PartitionLog:
    """Scan all segments of `directory`."""
    named = parse_partition_dir(directory.name)
    files = [(file, path) for file, path in log_files(directory) if file.kind is LogFileKind.LOG]
    segments = tuple(read_segment(path, advance, fast=fast) for _, path in files)
    batches = concatenate([segment.batches for segment in segments]) if segments else allocate(0)
    start = max(
        _checkpointed(directory, LOG_START_OFFSET_CHECKPOINT) or 0, files[0][0].offset if files else 0
    )
    return PartitionLog(
        path=directory,
        topic=named.topic if named else None,
        partition=named.partition if named else None,
        segments=segments,
        batches=batches,
        visibility=decide(batches, log_start_offset=start, least_end=files[-1][0].offset if files else 0),
        high_watermark=_checkpointed(directory, REPLICATION_OFFSET_CHECKPOINT),
    )


def _checkpointed(directory: Path, name: str) -> int | None:
    """The partition's offset in a checkpoint of the log directory around it."""
    named, file = parse_partition_dir(directory.resolve().name), directory.resolve().parent / name
    if named is None or not file.is_file():
        return None
    try:
        entries = read_offsets(file.read_bytes(), source=str(file))
    except CorruptData:
        return None
    wanted = (named.topic, named.partition)
    return next((entry.offset for entry in entries if (entry.topic, entry.partition) == wanted), None)
