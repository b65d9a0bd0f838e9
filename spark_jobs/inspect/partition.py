"""A partition's directory read as one log: its segments in order, and which batches a consumer gets."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from pathlib import Path

import numpy as np
import numpy.typing as npt

from spark_jobs.inspect.options import Isolation
from spark_jobs.inspect.records import Rows
from spark_jobs.inspect.segments import Advance, Segment, read_segment
from spark_jobs.kafka.errors import CorruptData
from spark_jobs.kafka.formats.checkpoints import read_offsets, read_partition_metadata
from spark_jobs.kafka.formats.control_record import ControlType
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
from spark_jobs.kafka.formats.record_batch import CONTROL_FLAG, TRANSACTIONAL_FLAG
from spark_jobs.kafka.log.log_directory import settle_names
from spark_jobs.kernels.columns import HeaderColumns, allocate, concatenate

TRANSACTION_STATE = "__transaction_state"
CONSUMER_OFFSETS = "__consumer_offsets"


class Outcome(IntEnum):
    """The outcome of a batch's transaction."""

    PLAIN = 0
    """Not transactional: nothing to decide."""
    COMMITTED = 1
    ABORTED = 2
    OPEN = 3
    CONTROL = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTxn:
    """A transaction that no marker has ended."""

    producer_id: int
    producer_epoch: int
    first_offset: int
    last_timestamp: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortedTxns:
    """Aborted transactions that have batches, as a transaction index lists them; one element each."""

    producer_id: npt.NDArray[np.int64]
    first_offset: npt.NDArray[np.int64]
    last_offset: npt.NDArray[np.int64]
    """The marker's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Visibility:
    """Outcome of every batch of a partition, and the offsets that bound what a consumer gets."""

    outcome: npt.NDArray[np.int8]
    aborted_txns: AbortedTxns
    open_txns: tuple[OpenTxn, ...]
    idle_markers: npt.NDArray[np.int64]
    """Rows of markers that ended no transaction: empty ones, or repeated by a coordinator (facts §3.1)."""
    log_start_offset: int
    log_end_offset: int

    @property
    def last_stable_offset(self) -> int:
        """The last stable offset, if all of the log is replicated."""
        if not self.open_txns:
            return self.log_end_offset
        return max(self.open_txns[0].first_offset, self.log_start_offset)

    def visible(self, batches: HeaderColumns, isolation: Isolation) -> npt.NDArray[np.bool_]:
        """Which batches hold records for such a consumer; single records below the log's start still go."""
        hidden: list[int] = [Outcome.CONTROL]
        end = self.log_end_offset
        if isolation is Isolation.READ_COMMITTED:
            hidden += [Outcome.ABORTED, Outcome.OPEN]
            end = self.last_stable_offset
        last = last_offsets(batches)
        shown: npt.NDArray[np.bool_] = ~np.isin(self.outcome, hidden) & (last < end)
        shown &= last >= self.log_start_offset
        return shown


def last_offsets(batches: HeaderColumns) -> npt.NDArray[np.int64]:
    return batches.base_offset + batches.last_offset_delta


def decide(batches: HeaderColumns, *, log_start_offset: int = 0, least_end: int = 0) -> Visibility:
    """Outcomes of all batches of one partition, in offset order.

    As in a broker's replay, a marker ends whatever its producer has open, of whatever epoch (facts §2.9).
    `least_end` is the base offset of the last segment: the log ends there if that segment is empty.
    """
    is_control = (batches.attributes & CONTROL_FLAG) != 0
    is_transactional = ((batches.attributes & TRANSACTIONAL_FLAG) != 0) & (batches.producer_id >= 0)
    is_marker = (
        is_control & np.isin(batches.control_type, (ControlType.ABORT, ControlType.COMMIT)) & batches.crc_ok
    )
    is_data = ~is_control & is_transactional & batches.crc_ok
    rows = np.flatnonzero(is_marker | is_data)
    rows = rows[np.argsort(batches.producer_id[rows], kind="stable")]
    ending = _ending_marker(rows, batches.producer_id[rows], is_marker[rows])
    outcome = np.where(is_control, Outcome.CONTROL, Outcome.PLAIN).astype(np.int8)
    ended = np.where(batches.control_type[ending] == ControlType.COMMIT, Outcome.COMMITTED, Outcome.ABORTED)
    data = is_data[rows]
    outcome[rows[data]] = np.where(ending < 0, Outcome.OPEN, ended)[data]
    ends = last_offsets(batches)[batches.crc_ok]
    aborted = data & (outcome[rows] == Outcome.ABORTED)
    return Visibility(
        outcome=outcome,
        aborted_txns=_aborted_txns(batches, rows[aborted], ending[aborted]),
        open_txns=_open_txns(batches, rows[data & (ending < 0)]),
        idle_markers=_idle_markers(rows, batches.producer_id[rows], is_marker[rows]),
        log_start_offset=log_start_offset,
        log_end_offset=max(int(ends[-1]) + 1 if ends.size else 0, log_start_offset, least_end),
    )


def _ending_marker(
    rows: npt.NDArray[np.int64], producers: npt.NDArray[np.int64], is_marker: npt.NDArray[np.bool_]
) -> npt.NDArray[np.int64]:
    """For each of `rows`, grouped by producer, the row of the producer's next marker; -1 if there is none."""
    beyond = rows.size
    places = np.where(is_marker, np.arange(rows.size), beyond)
    following = np.minimum.accumulate(places[::-1])[::-1] if rows.size else places
    found = np.minimum(following, max(beyond - 1, 0))
    same = (following < beyond) & (producers[found] == producers)
    return np.where(same, rows[found], -1)


def _idle_markers(
    rows: npt.NDArray[np.int64], producers: npt.NDArray[np.int64], is_marker: npt.NDArray[np.bool_]
) -> npt.NDArray[np.int64]:
    """Markers that directly follow a marker of the same producer."""
    follows = (producers[1:] == producers[:-1]) & is_marker[:-1] & is_marker[1:]
    return np.sort(rows[1:][follows])


def _aborted_txns(
    batches: HeaderColumns, rows: npt.NDArray[np.int64], markers: npt.NDArray[np.int64]
) -> AbortedTxns:
    """`rows` are batches grouped by producer and in offset order, `markers` the ones that aborted them."""
    ends, first = np.unique(markers, return_index=True)
    return AbortedTxns(
        producer_id=batches.producer_id[ends],
        first_offset=batches.base_offset[rows[first]],
        last_offset=batches.base_offset[ends],
    )


def _open_txns(batches: HeaderColumns, rows: npt.NDArray[np.int64]) -> tuple[OpenTxn, ...]:
    """Open transactions by first offset; `rows` are their batches, grouped by producer, in offset order."""
    producers, first, count = np.unique(batches.producer_id[rows], return_index=True, return_counts=True)
    txns = (
        OpenTxn(
            producer_id=int(producer),
            producer_epoch=int(batches.producer_epoch[rows[start + length - 1]]),
            first_offset=int(batches.base_offset[rows[start]]),
            last_timestamp=int(batches.max_timestamp[rows[start + length - 1]]),
        )
        for producer, start, length in zip(producers, first, count, strict=True)
    )
    return tuple(sorted(txns, key=lambda txn: txn.first_offset))


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLog:
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
    settled = settle_names(names, lambda name, offset: _next_offset(directory / name, offset))
    named = ((parse_file_name(name), directory / before) for name, before in settled.items())
    found = [(file, path) for file, path in named if file is not None]
    return sorted(found, key=lambda pair: (pair[0].offset, pair[0].kind))


def _next_offset(path: Path, base_offset: int) -> int:
    batches = read_segment(path).batches
    return int(last_offsets(batches)[-1]) + 1 if batches.rows else base_offset


def serve(segments: Sequence[tuple[int, Segment]]) -> tuple[Segment, ...]:
    """The segments, by base offset, with the batches that a consumer gets who reads from the first on.

    A broker looks for an offset in the last segment that begins at or before it. So where a copy was made
    during a compaction, and holds a cleaned segment beside those that it was made of, these are skipped.
    """
    bases = [base for base, _ in segments]
    log_end = max((_end_of(segment) for _, segment in segments[-1:]), default=0)
    served = [replace(segment, batches=segment.batches.part(0, 0)) for _, segment in segments]
    number, at = 0, -(2**63)
    while number < len(segments):
        segment = segments[number][1]
        first = int(np.argmax(np.append(last_offsets(segment.batches) >= at, True)))
        batches = segment.batches.part(first, segment.batches.rows)
        served[number] = replace(segment, batches=batches, first_offset=at)
        # An end behind the whole log's is a damaged base offset, which no checksum covers.
        if batches.rows and (end := _end_of(segment)) <= max(log_end, bases[-1]):
            at = max(at, end)
        number = max(number + 1, bisect_right(bases, at) - 1)
    return tuple(served)


def _end_of(segment: Segment) -> int:
    return int(last_offsets(segment.batches)[-1]) + 1 if segment.batches.rows else 0


def read_partition(
    directory: Path, advance: Advance = lambda _: None, *, fast: bool | None = None
) -> PartitionLog:
    """Scan all segments of `directory`."""
    named = parse_partition_dir(directory.name)
    files = [(file, path) for file, path in log_files(directory) if file.kind is LogFileKind.LOG]
    segments = tuple(read_segment(path, advance, fast=fast) for _, path in files)
    served = serve([(file.offset, segment) for (file, _), segment in zip(files, segments, strict=True)])
    batches = concatenate([segment.batches for segment in served]) if served else allocate(0)
    start = max(
        _checkpointed(directory, LOG_START_OFFSET_CHECKPOINT) or 0, files[0][0].offset if files else 0
    )
    return PartitionLog(
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
