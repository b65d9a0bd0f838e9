"""Files of inherited rows: held and parked batches for a later run, and the objects that hold their bytes.

A file names objects by source, path and content, not by run, so it does not depend on how data was divided
into runs. It is canonical like a state file: magic "CARR", version int16, bytes of the objects' JSON int32,
that JSON, rows.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from struct import Struct

import numpy as np
import pyarrow as pa

from spark_jobs.config.canonical import canonical_json
from spark_jobs.kernels.columns import NO_CONTROL_TYPE, NO_COORDINATOR_EPOCH
from spark_jobs.kernels.producers import Rows
from spark_jobs.lake.errors import BrokenState
from spark_jobs.lake.index_rows import concatenate, values
from spark_jobs.lake.layout import state_key
from spark_jobs.lake.manifest import ManifestEntry, ObjectRole
from spark_jobs.lake.object_store import ObjectStore
from spark_jobs.lake.states import get_content, put_content
from spark_jobs.tables.index import INDEX

MAGIC = b"CARR"
VERSION = 1
_PREAMBLE = Struct(">4shi")
STRETCH_OFFSETS = 1 << 20
"""Offsets of one stretch, which therefore has at most as many batches."""

INHERITED = np.dtype(
    [
        ("object", "i4"),
        ("position", "i8"),
        ("size", "i8"),
        ("base_offset", "i8"),
        ("partition_leader_epoch", "i4"),
        ("magic", "i1"),
        ("crc", "u4"),
        ("attributes", "i2"),
        ("last_offset_delta", "i4"),
        ("base_timestamp", "i8"),
        ("max_timestamp", "i8"),
        ("producer_id", "i8"),
        ("producer_epoch", "i2"),
        ("base_sequence", "i4"),
        ("record_count", "i4"),
        ("control_type", "i2"),
        ("coordinator_epoch", "i4"),
        ("offset", "i8"),
        ("txn_first_offset", "i8"),
    ]
)
"""`object` is an index into the file's objects; `offset` and `txn_first_offset` are -1 for none."""
_STORED = INHERITED.newbyteorder(">")


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class InheritedObject:
    """A staged object of an earlier run, as in its manifest."""

    source: str
    path: str
    role: str
    size: int
    sha256: str
    version: str
    referenced: bool


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class InheritedRows:
    """Rows of dtype `INHERITED` in arrival order, and the objects that they are in, each at least once."""

    objects: tuple[InheritedObject, ...] = ()
    rows: Rows = field(default_factory=lambda: np.empty(0, dtype=INHERITED))


def inherited_object(entry: ManifestEntry) -> InheritedObject:
    """The fields of a manifest entry that a later run needs."""
    return InheritedObject(
        source=entry.source,
        path=entry.path,
        role=entry.role.value,
        size=entry.size,
        sha256=entry.sha256,
        version=entry.version if entry.referenced else "",
        referenced=entry.referenced,
    )


def manifest_entry(inherited: InheritedObject, *, order: int, topic: str, partition: int) -> ManifestEntry:
    """An inherited object as an entry that `StagedObjects` can read."""
    return ManifestEntry(
        order=order,
        source=inherited.source,
        role=ObjectRole(inherited.role),
        topic=topic,
        partition=partition,
        path=inherited.path,
        size=inherited.size,
        sha256=inherited.sha256,
        version=inherited.version,
        referenced=inherited.referenced,
    )


def with_needed_objects(objects: Sequence[InheritedObject], rows: Rows) -> InheritedRows:
    """`rows` with only the `objects` that they refer to, in the rows' order."""
    needed, first_use = np.unique(rows["object"], return_index=True)
    in_order = needed[np.argsort(first_use)]
    renumbered = np.zeros(len(objects), dtype=np.int32)
    renumbered[in_order] = np.arange(len(in_order))
    kept = rows.copy()
    kept["object"] = renumbered[rows["object"]]
    return InheritedRows(objects=tuple(objects[number] for number in in_order), rows=kept)


def write_inherited(inherited: InheritedRows) -> bytes:
    """The file of `inherited`."""
    objects = canonical_json([asdict(each) for each in inherited.objects])
    return _PREAMBLE.pack(MAGIC, VERSION, len(objects)) + objects + inherited.rows.astype(_STORED).tobytes()


def read_inherited(data: bytes, *, source: str = "<bytes>") -> InheritedRows:
    """The rows in `data`; `source` names it in messages."""
    if len(data) < _PREAMBLE.size:
        raise BrokenState(f"{source}: {len(data)} bytes are too short for a file of inherited rows")
    magic, version, size = _PREAMBLE.unpack_from(data)
    if (magic, version) != (MAGIC, VERSION):
        raise BrokenState(
            f"{source}: found magic {magic!r}, version {version}; expected {MAGIC!r}, version {VERSION}"
        )
    start = _PREAMBLE.size + size
    objects = tuple(InheritedObject(**each) for each in json.loads(data[_PREAMBLE.size : start]))
    return InheritedRows(
        objects=objects, rows=np.frombuffer(data, dtype=_STORED, offset=start).astype(INHERITED)
    )


def put_inherited(lake: ObjectStore, inherited: InheritedRows) -> str:
    """Stores `inherited` in the lake; returns the digest that names it, empty for no rows."""
    return put_content(lake, write_inherited(inherited)) if len(inherited.rows) else ""


def get_inherited(lake: ObjectStore, digest: str) -> InheritedRows:
    """The rows of that name, none for the empty name."""
    if not digest:
        return InheritedRows()
    return read_inherited(get_content(lake, digest), source=lake.url_of(state_key(digest)))


def by_stretch(parts: Iterable[InheritedRows]) -> Iterator[tuple[int, InheritedRows]]:
    """Rows ordered by offset, grouped by stretch: the number of each stretch and its rows."""
    together: list[InheritedRows] = []
    current = -1
    for inherited in parts:
        for number, part in _split(inherited):
            if number != current and together:
                yield current, _together(together)
                together = []
            current = number
            together.append(part)
    if together:
        yield current, _together(together)


def _split(inherited: InheritedRows) -> Iterator[tuple[int, InheritedRows]]:
    numbers = inherited.rows["offset"].astype(np.int64) // STRETCH_OFFSETS
    edges = np.flatnonzero(np.diff(numbers)) + 1
    for start, stop in pairwise([0, *edges.tolist(), len(numbers)]):
        if start < stop:
            yield (
                int(numbers[start]),
                InheritedRows(objects=inherited.objects, rows=inherited.rows[start:stop]),
            )


def _together(parts: Sequence[InheritedRows]) -> InheritedRows:
    """The parts as one, each object once."""
    objects: dict[InheritedObject, int] = {}
    moved: list[Rows] = []
    for part in parts:
        numbers = np.array([objects.setdefault(each, len(objects)) for each in part.objects], dtype=np.int32)
        rows = part.rows.copy()
        rows["object"] = numbers[part.rows["object"]]
        moved.append(rows)
    return with_needed_objects(tuple(objects), np.concatenate(moved, dtype=INHERITED))


def inherited_of(rows: pa.RecordBatch) -> Rows:
    """Rows of the table `index` as rows of `INHERITED`; `object` is their object's order."""
    inherited = np.zeros(rows.num_rows, dtype=INHERITED)
    inherited["object"] = values(rows, "object_order")
    inherited["offset"] = inherited["txn_first_offset"] = -1
    for name in (INHERITED.names or ())[1:-2]:
        inherited[name] = values(rows, name)
    return inherited


def index_rows_of(inherited: Rows) -> pa.RecordBatch:
    """Turns rows of `INHERITED` into rows of the table `index`; their `object` is the order of an object."""
    native = {name: np.ascontiguousarray(inherited[name]) for name in INHERITED.names or ()}
    columns = {
        **native,
        "object_order": native["object"],
        "control_type": pa.array(native["control_type"], mask=native["control_type"] == NO_CONTROL_TYPE),
        "coordinator_epoch": pa.array(
            native["coordinator_epoch"], mask=native["coordinator_epoch"] == NO_COORDINATOR_EPOCH
        ),
        "problem": pa.nulls(len(inherited), pa.string()),
        "records_without_key": np.zeros(len(inherited), dtype=np.int32),
    }
    table = INDEX.cast(pa.table(columns))
    if not len(inherited):
        return pa.RecordBatch.from_pylist([], schema=INDEX.schema)
    return concatenate(table.to_batches())
