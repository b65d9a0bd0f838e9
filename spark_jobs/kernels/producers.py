"""The producer state of a partition as one table for kernels (facts §2.1), and its `.snapshot` files.

A producer is one fixed-size row, found through an open-addressing hash of its id: even with a million
producers a batch accesses two places in memory. Rows are in the order in which producers appeared. The twin
is `kafka.producers.producer_state`. Canonical rows are sorted by producer id, with the oldest batch of each
at index 0 and zeros after the newest: equal states have equal bytes.
"""

from collections.abc import Iterable, Iterator
from io import BytesIO
from typing import Any

import numpy as np
import numpy.typing as npt

from spark_jobs.kafka.formats.record_batch import NO_PRODUCER_EPOCH, NO_SEQUENCE, NO_TIMESTAMP
from spark_jobs.kafka.formats.snapshot import ENTRIES_START, packed_entries, seal_entries
from spark_jobs.kafka.producers.producer_state import (
    NO_COORDINATOR_EPOCH,
    NO_OFFSET,
    NUM_BATCHES_TO_RETAIN,
    BatchMetadata,
    ProducerStateEntry,
    ProducerStates,
)
from spark_jobs.kernels.compile import helper, kernel
from spark_jobs.kernels.memory import prefetch

RETAINED = NUM_BATCHES_TO_RETAIN

PRODUCER = np.dtype(
    [
        # The fields that the rules need come first, close together.
        ("last_sequence", np.int32, RETAINED),
        ("offset_delta", np.int32, RETAINED),
        ("coordinator_epoch", np.int32),
        ("producer_epoch", np.int16),
        ("oldest", np.int8),
        ("batches", np.int8),
        ("txn_first_offset", np.int64),
        ("last_timestamp", np.int64),
        ("last_offset", np.int64, RETAINED),
        ("timestamp", np.int64, RETAINED),
        ("producer_id", np.int64),
    ],
    align=True,
)
"""One producer. The four arrays are a ring: `batches` remembered ones, the oldest at index `oldest`."""

Rows = npt.NDArray[np.void]
Slots = npt.NDArray[np.int64]

NO_ROW = -1
_ROW_SIZE, _SLOT_SIZE, _CACHE_LINE = PRODUCER.itemsize, 16, 64
_AHEAD = 12
"""Prefetch distance in batches: far enough ahead for memory, near enough to stay in the cache."""
_FIRST_ROWS = 64
ROWS_PER_PART = 1 << 12
"""Rows that are packed or unpacked together, column by column: few enough to stay in the cache."""
_SPREAD = -7046029254386353131
"""2^64 divided by the golden ratio, as a signed number: consecutive ids land far apart."""


@helper
def first_slot(producer_id: int, slots: Slots) -> int:
    """Where the search for `producer_id` begins; the number of slots is a power of two."""
    return (producer_id * _SPREAD >> 20) & (len(slots) - 1)


@helper
def find_row(producer_id: int, slots: Slots) -> int:
    """The row of `producer_id`, or `NO_ROW`."""
    slot = first_slot(producer_id, slots)
    while slots[slot, 1] != NO_ROW and slots[slot, 0] != producer_id:
        slot = (slot + 1) & (len(slots) - 1)
    return int(slots[slot, 1])


@helper
def prefetch_producers(producer_ids: npt.NDArray[np.int64], index: int, rows: Rows, slots: Slots) -> None:
    """Prefetches the memory that batches a little after `index` will need: first slots, then rows."""
    if index + 2 * _AHEAD < producer_ids.size:
        prefetch(slots, first_slot(producer_ids[index + 2 * _AHEAD], slots) * _SLOT_SIZE)
    if index + _AHEAD < producer_ids.size:
        row = find_row(producer_ids[index + _AHEAD], slots)
        if row != NO_ROW:
            for line in range(0, _ROW_SIZE, _CACHE_LINE):
                prefetch(rows, row * _ROW_SIZE + line)


@helper
def insert_slot(producer_id: int, row: int, slots: Slots) -> None:
    """Adds `producer_id`, unknown before, to the hash, with its `row`."""
    slot = first_slot(producer_id, slots)
    while slots[slot, 1] != NO_ROW:
        slot = (slot + 1) & (len(slots) - 1)
    slots[slot, 0] = producer_id
    slots[slot, 1] = row


@helper
def begin_row(row: Any, producer_id: int) -> None:
    """Initialises `row` for an unknown producer."""
    row.producer_id = producer_id
    row.producer_epoch = NO_PRODUCER_EPOCH
    row.coordinator_epoch = NO_COORDINATOR_EPOCH
    row.last_timestamp = NO_TIMESTAMP
    row.txn_first_offset = NO_OFFSET
    row.oldest = 0
    row.batches = 0


@kernel
def _fill_slots(rows: Rows, count: int, slots: Slots) -> None:
    for row in range(count):
        insert_slot(rows[row].producer_id, row, slots)


@kernel
def _put_canonical(rows: Rows, order: npt.NDArray[np.int64], canonical: Rows) -> None:
    """Writes the rows at the indexes `order` to `canonical`."""
    for place in range(order.size):
        if place + _AHEAD < order.size:
            for line in range(0, _ROW_SIZE, _CACHE_LINE):
                prefetch(rows, order[place + _AHEAD] * _ROW_SIZE + line)
        row, target = rows[order[place]], canonical[place]
        target.producer_id = row.producer_id
        target.producer_epoch = row.producer_epoch
        target.coordinator_epoch = row.coordinator_epoch
        target.last_timestamp = row.last_timestamp
        target.txn_first_offset = row.txn_first_offset
        target.oldest = 0
        target.batches = row.batches
        for age in range(RETAINED):
            index, is_known = (row.oldest + age) % RETAINED, age < row.batches
            target.last_sequence[age] = row.last_sequence[index] if is_known else 0
            target.offset_delta[age] = row.offset_delta[index] if is_known else 0
            target.last_offset[age] = row.last_offset[index] if is_known else 0
            target.timestamp[age] = row.timestamp[index] if is_known else 0


def canonical_parts(rows: Rows) -> Iterator[Rows]:
    """`rows`, one per producer, as canonical rows, part by part: copies, with memory for one part."""
    order = np.argsort(rows["producer_id"])
    for start in range(0, len(rows), ROWS_PER_PART):
        yield _canonical(rows, order[start : start + ROWS_PER_PART])


def _canonical(rows: Rows, order: npt.NDArray[np.int64]) -> Rows:
    canonical = np.empty(len(order), dtype=PRODUCER)
    _put_canonical(rows, order, canonical)
    return canonical


class ProducerTable:
    """The producers of one partition and the offset after its last batch; folding changes it in place."""

    __slots__ = ("_rows", "count", "end_offset", "slots")

    def __init__(self, rows: Rows | None = None, *, end_offset: int = 0) -> None:
        """`rows` of dtype `PRODUCER`, one per producer id, are copied."""
        known = np.empty(0, dtype=PRODUCER) if rows is None else rows
        self.count, self.end_offset = len(known), end_offset
        # A power of two: free rows cost nothing until they are used, and save a copy when producers are
        # added.
        self._rows = np.zeros(1 << max(_FIRST_ROWS - 1, self.count - 1).bit_length(), dtype=PRODUCER)
        self._rows[: self.count] = known
        self._fill_slots()

    @property
    def rows(self) -> Rows:
        """The rows in use; a view."""
        return self._rows[: self.count]

    @property
    def room(self) -> Rows:
        """All rows, including free ones."""
        return self._rows

    def canonical(self) -> Rows:
        """A copy as canonical rows."""
        return _canonical(self.rows, np.argsort(self.rows["producer_id"]))

    def grow(self) -> None:
        """Makes room for twice as many producers."""
        rows = np.zeros(2 * len(self._rows), dtype=PRODUCER)
        rows[: self.count] = self.rows
        self._rows = rows
        self._fill_slots()

    def _fill_slots(self) -> None:
        """Twice as many slots as rows: at most half are taken, so that searches stay short."""
        self.slots = np.full((2 * len(self._rows), 2), NO_ROW, dtype=np.int64)
        _fill_slots(self._rows, self.count, self.slots)


def table_of(states: ProducerStates) -> ProducerTable:
    """The table with the producers and the end offset of `states`; tests compare both forms."""
    return ProducerTable(rows_of_entries(states.producers.values()), end_offset=states.end_offset)


def states_of(table: ProducerTable) -> ProducerStates:
    """The table's producers as values, by producer id."""
    entries = (_entry(row) for row in table.canonical())
    return ProducerStates(
        producers={entry.producer_id: entry for entry in entries}, end_offset=table.end_offset
    )


def rows_of_entries(entries: Iterable[ProducerStateEntry]) -> Rows:
    """One row per entry, in their order."""
    listed = tuple(entries)
    rows = np.zeros(len(listed), dtype=PRODUCER)
    for row, entry in zip(rows, listed, strict=True):
        _write(row, entry)
    return rows


def _write(row: Any, entry: ProducerStateEntry) -> None:
    txn_first_offset = entry.current_txn_first_offset
    row["producer_id"] = entry.producer_id
    row["producer_epoch"] = entry.producer_epoch
    row["coordinator_epoch"] = entry.coordinator_epoch
    row["last_timestamp"] = entry.last_timestamp
    row["txn_first_offset"] = NO_OFFSET if txn_first_offset is None else txn_first_offset
    row["batches"] = len(entry.batches)
    for index, batch in enumerate(entry.batches):
        row["last_sequence"][index] = batch.last_sequence
        row["last_offset"][index] = batch.last_offset
        row["offset_delta"][index] = batch.offset_delta
        row["timestamp"][index] = batch.timestamp


def _entry(row: Any) -> ProducerStateEntry:
    txn_first_offset = int(row["txn_first_offset"])
    return ProducerStateEntry(
        producer_id=int(row["producer_id"]),
        producer_epoch=int(row["producer_epoch"]),
        coordinator_epoch=int(row["coordinator_epoch"]),
        last_timestamp=int(row["last_timestamp"]),
        current_txn_first_offset=None if txn_first_offset == NO_OFFSET else txn_first_offset,
        batches=tuple(_batch(row, index) for index in range(row["batches"])),
    )


def _batch(row: Any, index: int) -> BatchMetadata:
    return BatchMetadata(
        last_sequence=int(row["last_sequence"][index]),
        last_offset=int(row["last_offset"][index]),
        offset_delta=int(row["offset_delta"][index]),
        timestamp=int(row["timestamp"][index]),
    )


# `.snapshot` files to and from producer rows: the twin of `kafka.formats.snapshot`.
_ENTRY = np.dtype(
    [
        ("producer_id", ">i8"),
        ("producer_epoch", ">i2"),
        ("last_sequence", ">i4"),
        ("last_offset", ">i8"),
        ("offset_delta", ">i4"),
        ("last_timestamp", ">i8"),
        ("coordinator_epoch", ">i4"),
        ("txn_first_offset", ">i8"),
    ]
)
_ALIKE = ("producer_id", "producer_epoch", "coordinator_epoch", "last_timestamp", "txn_first_offset")
_OF_NEWEST = ("last_sequence", "last_offset", "offset_delta")


def write_snapshot(rows: Rows) -> bytes:
    """The file of producers in the order of `rows`; only the newest batch of each is written."""
    return _write_parts((rows,), len(rows))


def write_canonical_snapshot(rows: Rows) -> bytes:
    """The same by producer id."""
    return _write_parts(canonical_parts(rows), len(rows))


def _write_parts(parts: Iterable[Rows], count: int) -> bytes:
    file = _file_of_zeros(ENTRIES_START + count * _ENTRY.itemsize)
    file.seek(ENTRIES_START)
    for rows in parts:
        file.write(_entries(rows).tobytes())
    with file.getbuffer() as data:
        seal_entries(data)
    return file.getvalue()


def _file_of_zeros(size: int) -> BytesIO:
    """A file buffer of its final size that returns its bytes without another copy."""
    file = BytesIO()
    file.seek(size - 1)
    file.write(b"\0")
    return file


def _entries(rows: Rows) -> Rows:
    entries = np.empty(len(rows), dtype=_ENTRY)
    for name in _ALIKE:
        entries[name] = rows[name]
    has_batch = rows["batches"] > 0
    newest = ((rows["oldest"] + rows["batches"] - 1) % RETAINED)[:, np.newaxis]
    for name, none in zip(_OF_NEWEST, (NO_SEQUENCE, NO_OFFSET, 0), strict=True):
        entries[name] = np.where(has_batch, np.take_along_axis(rows[name], newest, axis=1)[:, 0], none)
    return entries


def read_snapshot(data: bytes, *, source: str = "<bytes>") -> Rows:
    """The producers in the file's order; refuses what the pure reader refuses."""
    entries = np.frombuffer(packed_entries(data, source=source), dtype=_ENTRY)
    rows = np.zeros(len(entries), dtype=PRODUCER)
    for name in _ALIKE:
        rows[name] = entries[name]
    rows["txn_first_offset"] = np.maximum(entries["txn_first_offset"], NO_OFFSET)
    has_batch = entries["last_offset"] >= 0
    rows["batches"] = has_batch
    for name in _OF_NEWEST:
        rows[name][:, 0] = np.where(has_batch, entries[name], 0)
    rows["timestamp"][:, 0] = np.where(has_batch, entries["last_timestamp"], 0)
    return rows
