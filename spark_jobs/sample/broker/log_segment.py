"""A segment in memory: bytes, batches, offset, time and transaction index (facts §1.9, §1.10, §4.2-4.3)."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from struct import Struct

from spark_jobs.kafka.errors import CorruptTxnIndex, OnceoverError
from spark_jobs.kafka.formats.checkpoints import LeaderEpochs, write_leader_epochs
from spark_jobs.kafka.formats.indexes import AbortedTxn, OffsetPosition, TimestampOffset, write_txn_index
from spark_jobs.kafka.formats.legacy import LegacyHeader
from spark_jobs.kafka.formats.log_files import LEADER_EPOCH_CHECKPOINT, LogFileKind, segment_file_name
from spark_jobs.kafka.formats.record_batch import NO_TIMESTAMP
from spark_jobs.kafka.log.segment import ScannedBatch
from spark_jobs.kafka.producers.producer_state import CompletedTxn
from spark_jobs.kafka.topic_partition import TopicPartition
from spark_jobs.kafka.transactions.partition_transactions import (
    LogBatch,
    PartitionTransaction,
    aborted_entry,
    close_transactions,
)

_ANY_PARTITION = TopicPartition("", 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortedSearch:
    """Aborted transactions that overlap a range; `is_complete` if no later segment can add to them."""

    aborted: tuple[AbortedTxn, ...]
    is_complete: bool


def build_aborted_index(
    batches: Iterable[LogBatch], *, open_before: Mapping[int, PartitionTransaction] | None = None
) -> Iterator[AbortedTxn]:
    """The entries for the ABORT markers in `batches`, as a leader writes them; recordings must agree."""
    for closed in close_transactions(batches, _ANY_PARTITION, dict(open_before or {})):
        if entry := aborted_entry(closed):
            yield entry


def append_aborted(entries: tuple[AbortedTxn, ...], entry: AbortedTxn) -> tuple[AbortedTxn, ...]:
    """The index with `entry` at its end; last offsets must ascend."""
    if entries and entry.last_offset <= entries[-1].last_offset:
        raise CorruptTxnIndex(
            position=0, expected=f"a last offset above {entries[-1].last_offset}", found=entry.last_offset
        )
    return (*entries, entry)


def truncate_aborted(entries: Iterable[AbortedTxn], offset: int) -> tuple[AbortedTxn, ...]:
    """The index after the log is truncated to `offset`: the transactions whose marker remains."""
    return tuple(entry for entry in entries if entry.last_offset < offset)


def search_aborted(
    entries: Iterable[AbortedTxn], *, fetch_offset: int, upper_bound_offset: int
) -> AbortedSearch:
    """The broker's search of one segment's index for the batches of [fetch_offset, upper_bound_offset)."""
    found: list[AbortedTxn] = []
    for entry in entries:
        if entry.last_offset >= fetch_offset and entry.first_offset < upper_bound_offset:
            found.append(entry)
        if entry.last_stable_offset >= upper_bound_offset:
            return AbortedSearch(aborted=tuple(found), is_complete=True)
    return AbortedSearch(aborted=tuple(found), is_complete=False)


def aborted_for_fetch(
    segments: Iterable[Iterable[AbortedTxn]], *, fetch_offset: int, upper_bound_offset: int
) -> tuple[AbortedTxn, ...]:
    """The aborted list of a read_committed fetch: from the segment being read forward until complete."""
    found: list[AbortedTxn] = []
    for entries in segments:
        search = search_aborted(entries, fetch_offset=fetch_offset, upper_bound_offset=upper_bound_offset)
        found.extend(search.aborted)
        if search.is_complete:
            break
    return tuple(found)


NOT_READ = TimestampOffset(timestamp=NO_TIMESTAMP, offset=-1)
"""Not yet computed: a segment's largest timestamp is then the last entry of its time index."""
_OFFSET_ENTRY = Struct(">ii")
_TIME_ENTRY = Struct(">qi")


class InvalidOffset(OnceoverError):
    """An index entry that does not follow the one before it."""


def base_offset_of(batch: ScannedBatch) -> int:
    """First offset of a batch; a legacy message only knows its last."""
    header = batch.header
    return header.offset if isinstance(header, LegacyHeader) else header.base_offset


@dataclass(slots=True, kw_only=True)
class LogSegment:
    """`batches` mirror the whole batches of `data`; `created` is the clock when the segment began."""

    base_offset: int
    created: int
    index_interval_bytes: int
    data: bytearray = field(default_factory=bytearray)
    batches: list[ScannedBatch] = field(default_factory=list)
    offset_index: list[OffsetPosition] = field(default_factory=list)
    time_index: list[TimestampOffset] = field(default_factory=list)
    aborted: tuple[AbortedTxn, ...] = ()
    max_timestamp: TimestampOffset = NOT_READ
    bytes_since_last_index_entry: int = 0

    @property
    def size(self) -> int:
        return len(self.data)

    @property
    def next_offset(self) -> int:
        """The offset after the last batch, or the base offset of an empty segment."""
        return self.batches[-1].header.next_offset if self.batches else self.base_offset

    def append(self, records: bytes, batches: Iterable[ScannedBatch]) -> None:
        """Append whole batches; their positions count from the start of `records`."""
        start = len(self.data)
        self.data += records
        for batch in batches:
            self.note(ScannedBatch(position=start + batch.position, header=batch.header))

    def note(self, batch: ScannedBatch) -> None:
        """Add a batch that is in `data` to the indexes."""
        self.note_timestamp(batch)
        if self.bytes_since_last_index_entry > self.index_interval_bytes:
            self._index(batch)
        self.bytes_since_last_index_entry += batch.header.size
        self.batches.append(batch)

    def note_timestamp(self, batch: ScannedBatch) -> None:
        timestamp = batch.header.max_timestamp
        if timestamp > self._read_max_timestamp().timestamp:
            self.max_timestamp = TimestampOffset(timestamp=timestamp, offset=batch.header.last_offset)

    def _read_max_timestamp(self) -> TimestampOffset:
        if self.max_timestamp is NOT_READ:
            self.max_timestamp = self._last_time_entry()
        return self.max_timestamp

    def _last_time_entry(self) -> TimestampOffset:
        nothing = TimestampOffset(timestamp=NO_TIMESTAMP, offset=self.base_offset)
        return self.time_index[-1] if self.time_index else nothing

    def _index(self, batch: ScannedBatch) -> None:
        offset = batch.header.last_offset
        if self.offset_index and offset <= self.offset_index[-1].offset:
            raise InvalidOffset(
                f"offset {offset} after {self.offset_index[-1].offset} in {self.base_offset}.index"
            )
        self.offset_index.append(OffsetPosition(offset=offset, position=batch.position))
        self.index_max_timestamp()
        self.bytes_since_last_index_entry = 0

    def index_max_timestamp(self) -> None:
        """Index the largest timestamp so far; also done when the segment is rolled or closed."""
        if self._read_max_timestamp().timestamp > self._last_time_entry().timestamp:
            self.time_index.append(self.max_timestamp)

    def update_txn_index(self, completed: CompletedTxn, last_stable_offset: int) -> None:
        """Index an aborted transaction whose marker is in this segment (facts §4.2)."""
        if completed.is_aborted:
            entry = AbortedTxn(
                producer_id=completed.producer_id,
                first_offset=completed.first_offset,
                last_offset=completed.last_offset,
                last_stable_offset=last_stable_offset,
            )
            self.aborted = append_aborted(self.aborted, entry)

    def index_of(self, offset: int) -> int:
        """Index in `batches` of the first batch that ends at or after `offset`."""
        return bisect_left(self.batches, offset, key=lambda batch: batch.header.last_offset)

    def batch_bytes(self, batch: ScannedBatch) -> bytes:
        return bytes(self.data[batch.position : batch.end])

    def truncate_to(self, offset: int, *, now: int) -> None:
        """Truncate at the batch that holds `offset`; index entries for it and later are removed (facts §4.2).

        An empty segment starts over.
        """
        keep = self.index_of(offset)
        if keep < len(self.batches):
            del self.data[self.batches[keep].position :]
            del self.batches[keep:]
        self.offset_index = [entry for entry in self.offset_index if entry.offset < offset]
        self.time_index = [entry for entry in self.time_index if entry.offset < offset]
        self.aborted = truncate_aborted(self.aborted, offset)
        self.created = self.created if self.data else now
        if self._read_max_timestamp().timestamp >= 0:
            self._find_max_timestamp()
        self.bytes_since_last_index_entry = 0

    def _find_max_timestamp(self) -> None:
        """The largest remaining timestamp: in the time index, or in a batch after its last entry."""
        self.max_timestamp = self._last_time_entry()
        start = max(
            (entry.position for entry in self.offset_index if entry.offset <= self.max_timestamp.offset),
            default=0,
        )
        for batch in self.batches:
            if batch.position >= start:
                self.note_timestamp(batch)

    def reset(self) -> None:
        """Drop batches and indexes; the bytes stay, to be read again."""
        self.batches, self.offset_index, self.time_index, self.aborted = [], [], [], ()
        self.max_timestamp = NOT_READ
        self.bytes_since_last_index_entry = 0

    def write_offset_index(self) -> bytes:
        base = self.base_offset
        return b"".join(
            _OFFSET_ENTRY.pack(entry.offset - base, entry.position) for entry in self.offset_index
        )

    def write_time_index(self) -> bytes:
        base = self.base_offset
        return b"".join(_TIME_ENTRY.pack(entry.timestamp, entry.offset - base) for entry in self.time_index)


# The files of a segment and of a partition.


def segment_files(segment: LogSegment) -> dict[str, bytes]:
    """A segment's files; a transaction index exists only if it has an entry (facts §1.9)."""
    base = segment.base_offset
    files = {
        segment_file_name(base, LogFileKind.LOG): bytes(segment.data),
        segment_file_name(base, LogFileKind.INDEX): segment.write_offset_index(),
        segment_file_name(base, LogFileKind.TIME_INDEX): segment.write_time_index(),
    }
    if segment.aborted:
        files[segment_file_name(base, LogFileKind.TXN_INDEX)] = write_txn_index(segment.aborted)
    return files


def partition_files(
    segments: Iterable[LogSegment], snapshots: Mapping[int, bytes], leader_epochs: LeaderEpochs
) -> dict[str, bytes]:
    """A partition's directory: segments, indexes, snapshots, leader epochs; name → bytes."""
    files = {LEADER_EPOCH_CHECKPOINT: write_leader_epochs(leader_epochs.entries)}
    for segment in segments:
        files |= segment_files(segment)
    for offset, data in snapshots.items():
        files[segment_file_name(offset, LogFileKind.SNAPSHOT)] = data
    return files
