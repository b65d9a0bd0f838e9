"""A partition's directory read as one log: its segments in order, and which batches a consumer gets."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from spark_jobs.inspect.record_lines import Rows
from spark_jobs.inspect.segment_files import Advance, Segment, read_segment
from spark_jobs.kafka.errors import CorruptData
from spark_jobs.kafka.formats.checkpoints import read_offsets, read_partition_metadata
from spark_jobs.kafka.formats.log_files import (
    LOG_START_OFFSET_CHECKPOINT,
    OWN_TOPICS,
    PARTITION_METADATA,
    REPLICATION_OFFSET_CHECKPOINT,
    LogFile,
    LogFileKind,
    parse_file_name,
    parse_partition_dir,
)
from spark_jobs.kafka.log.log_directory import recovered_names
from spark_jobs.kernels.columns import HeaderColumns, allocate, concatenate
from spark_jobs.reading.isolation import Isolation
from spark_jobs.reading.visibility import Visibility, decide, last_offsets, served_parts

TRANSACTION_STATE = "__transaction_state"
CONSUMER_OFFSETS = "__consumer_offsets"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPartition:
    """All batches of a partition; `topic` and `partition` are None if the directory's name is not a
    partition's.
    """

    path: Path
    topic: str | None
    partition: int | None
    segments: tuple[Segment, ...]
    served: tuple[Segment, ...]
    """The segments with those batches alone that a broker serves: of overlapping ones the first counts."""
    batches: HeaderColumns
    """All that are served."""
    visibility: Visibility
    high_watermark: int | None
    """As checkpointed beside the partition's directory."""
    topic_id: str | None = None
    """As `partition.metadata` says, None without a readable one."""

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def is_internal(self) -> bool:
        """Kafka's own topics are no part of what a consumer of the data reads."""
        return self.topic in OWN_TOPICS

    @property
    def overlapping(self) -> dict[str, int]:
        """By file, how many of its batches repeat offsets that a segment before it serves."""
        pairs = zip(self.segments, self.served, strict=True)
        hidden = {whole.path.name: whole.batches.rows - part.batches.rows for whole, part in pairs}
        return {name: rows for name, rows in hidden.items() if rows}

    def visible_rows(self, isolation: Isolation) -> Iterator[tuple[Segment, Rows]]:
        """For each segment the batches that a consumer gets; one with a wrong checksum is none of them."""
        visible = self.visibility.visible(self.batches, isolation) & self.batches.crc_ok
        first = 0
        for segment in self.served:
            yield segment, np.flatnonzero(visible[first : first + segment.batches.rows])
            first += segment.batches.rows


def log_files(directory: Path) -> list[tuple[LogFile, Path]]:
    """The files whose name begins with an offset, by offset, as a broker that starts has them.

    What was being deleted or cleaned is left out; a segment that was being swapped in has its place (facts
    §6.1).
    """
    names = [path.name for path in directory.iterdir() if path.is_file()]
    recovered = recovered_names(names, lambda name, offset: _next_offset(directory / name, offset))
    named = ((parse_file_name(name), directory / before) for name, before in recovered.items())
    found = [(file, path) for file, path in named if file is not None]
    return sorted(found, key=lambda pair: (pair[0].offset, pair[0].kind))


def _next_offset(path: Path, base_offset: int) -> int:
    batches = read_segment(path).batches
    return int(last_offsets(batches)[-1]) + 1 if batches.rows else base_offset


def serve(segments: Sequence[tuple[int, Segment]]) -> tuple[Segment, ...]:
    """The segments, by base offset, with the batches that a broker serves."""
    parts = served_parts([base for base, _ in segments], [segment.batches for _, segment in segments])
    return tuple(
        replace(
            segment,
            batches=segment.batches.part(part.first_row, segment.batches.rows),
            first_offset=part.first_offset,
        )
        for (_, segment), part in zip(segments, parts, strict=True)
    )


def read_partition(
    directory: Path, advance: Advance = lambda _: None, *, fast: bool | None = None
) -> StoredPartition:
    """Scan all segments of `directory`."""
    named = parse_partition_dir(directory.name)
    files = [(file, path) for file, path in log_files(directory) if file.kind is LogFileKind.LOG]
    segments = tuple(read_segment(path, advance, fast=fast) for _, path in files)
    served = serve([(file.offset, segment) for (file, _), segment in zip(files, segments, strict=True)])
    batches = concatenate([segment.batches for segment in served]) if served else allocate(0)
    start = max(
        _checkpointed(directory, LOG_START_OFFSET_CHECKPOINT) or 0, files[0][0].offset if files else 0
    )
    return StoredPartition(
        path=directory,
        topic=named.topic if named else None,
        partition=named.partition if named else None,
        segments=segments,
        served=served,
        batches=batches,
        visibility=decide(batches, log_start_offset=start, least_end=files[-1][0].offset if files else 0),
        high_watermark=_checkpointed(directory, REPLICATION_OFFSET_CHECKPOINT),
        topic_id=_topic_id(directory / PARTITION_METADATA),
    )


def _topic_id(file: Path) -> str | None:
    try:
        return read_partition_metadata(file.read_bytes()).topic_id if file.is_file() else None
    except CorruptData:
        return None


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
