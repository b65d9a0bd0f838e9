"""`.snapshot` files straight to and from producer rows: the twin of `protocol.snapshot` for very many."""

from collections.abc import Iterable
from io import BytesIO

import numpy as np

from spark_jobs.kernels.producers import PRODUCER, RETAINED, Rows, canonical_parts
from spark_jobs.protocol.producer_state import NO_OFFSET
from spark_jobs.protocol.record_batch import NO_SEQUENCE
from spark_jobs.protocol.snapshot import ENTRIES_START, packed_entries, seal_entries

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
    """The file of producers in the order of `rows`; all but each one's newest batch is left out."""
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
    """It has its room at once, and gives its bytes away without another copy."""
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
