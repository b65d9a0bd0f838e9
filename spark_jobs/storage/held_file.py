"""What a partition holds for a later run, as canonical bytes: equal states are equal files.

    magic "WAIT", version int16
    published_offset int64: up to where records are published
    has_markers int8, transactions int32, stretches int32; then that many rows of each

A transaction stays until nothing of it is to come, neither data nor marker nor publication. Batches that were
held back are kept in files of inherited rows, one for each stretch of offsets, so that no file grows without
bound and a run rewrites only the stretches that it touches. Versions are those of a state file.
"""

from dataclasses import dataclass, field
from struct import Struct
from typing import Any

import numpy as np

from spark_jobs.kernels.producers import Rows
from spark_jobs.kernels.transactions import TRANSACTION
from spark_jobs.storage.errors import BrokenState
from spark_jobs.storage.layout import state_key
from spark_jobs.storage.object_store import ObjectStore
from spark_jobs.storage.state_file import (
    VERSION,
    WITH_GAPS,
    get_content,
    put_content,
    version_for,
    without_gaps,
)

MAGIC = b"WAIT"
_PREAMBLE = Struct(">4sh")
_HEADING = Struct(">qbii")

HELD_PART = np.dtype(
    [*((name, TRANSACTION[name]) for name in TRANSACTION.names or ()), ("timed_out", np.int8)]
)
"""A transaction of the partition; `timed_out` if its batches are held below the published offset."""


def _stored_without(*names: str) -> np.dtype[Any]:
    kept = (name for name in HELD_PART.names or () if name not in names)
    return np.dtype([(name, HELD_PART[name].newbyteorder(">")) for name in kept])


_STORED = {
    VERSION: _stored_without("began_before", "gap_first_offset", "gap_last_offset"),
    WITH_GAPS: _stored_without("began_before"),
}
STRETCH: np.dtype[Any] = np.dtype([("number", ">i8"), ("rows", ">i4"), ("digest", "V32")])
"""A stretch of held batches, by offset // `STRETCH_OFFSETS`, and the name of its file."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HeldState:
    """One partition; compare by bytes. `transactions` are rows of `HELD_PART`, `stretches` of `STRETCH`."""

    published_offset: int = 0
    has_markers: bool = True
    transactions: Rows = field(default_factory=lambda: np.empty(0, dtype=HELD_PART))
    stretches: Rows = field(default_factory=lambda: np.empty(0, dtype=STRETCH))

    @property
    def held(self) -> tuple[str, ...]:
        """Names of the files of inherited rows, by offset."""
        return tuple(bytes(digest).hex() for digest in self.stretches["digest"])

    @property
    def held_batches(self) -> int:
        return int(self.stretches["rows"].sum())


def write_held(held: HeldState) -> bytes:
    """The file of `held`; its transactions by first offset, then marker."""
    rows = held.transactions
    ordered = rows[np.lexsort((rows["marker_offset"], rows["first_offset"]))]
    version = version_for(rows)
    stored = np.zeros(len(ordered), dtype=_STORED[version])
    for name in stored.dtype.names or ():
        stored[name] = ordered[name]
    heading = _HEADING.pack(held.published_offset, held.has_markers, len(stored), len(held.stretches))
    return b"".join((_PREAMBLE.pack(MAGIC, version), heading, stored.tobytes(), held.stretches.tobytes()))


def read_held(data: bytes, *, source: str = "<bytes>") -> HeldState:
    """What `data` says is held; `source` names it in messages."""
    start = _PREAMBLE.size + _HEADING.size
    if len(data) < start:
        raise BrokenState(f"{source}: {len(data)} bytes are no state of held transactions")
    magic, version = _PREAMBLE.unpack_from(data)
    if magic != MAGIC or version not in _STORED:
        readable = " and ".join(map(str, _STORED))
        raise BrokenState(f"{source}: a file {magic!r} of version {version}, this one reads {readable}")
    published_offset, has_markers, transactions, stretches = _HEADING.unpack_from(data, _PREAMBLE.size)
    kind = _STORED[version]
    end = start + transactions * kind.itemsize
    if len(data) != end + stretches * STRETCH.itemsize:
        raise BrokenState(
            f"{source}: {len(data)} bytes for {transactions} transactions, {stretches} stretches"
        )
    return HeldState(
        published_offset=published_offset,
        has_markers=bool(has_markers),
        transactions=_unpacked(np.frombuffer(data, dtype=kind, count=transactions, offset=start)),
        stretches=np.frombuffer(data, dtype=STRETCH, offset=end).copy(),
    )


def put_held(lake: ObjectStore, held: HeldState) -> str:
    """Keeps `held` in the lake; its digest is its name."""
    return put_content(lake, write_held(held))


def get_held(lake: ObjectStore, digest: str) -> HeldState:
    """The state of that name; an empty one for the empty name."""
    if not digest:
        return HeldState()
    return read_held(get_content(lake, digest), source=lake.url_of(state_key(digest)))


def _unpacked(stored: Rows) -> Rows:
    rows = np.zeros(len(stored), dtype=HELD_PART)
    for name in stored.dtype.names or ():
        rows[name] = stored[name]
    rows["began_before"] = 1
    return without_gaps(rows, stored)
