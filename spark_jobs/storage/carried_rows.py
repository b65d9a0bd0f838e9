"""Batches that wait for a later night, with all it takes to find their bytes again.

The file names objects by source, path and content, not by run: how nights were cut does not show in it. It is
canonical like a state file: magic "CARR", version int16, bytes of the objects' JSON int32, that JSON, rows.
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
from spark_jobs.storage.errors import BrokenState
from spark_jobs.storage.index_rows import concatenate, values
from spark_jobs.storage.layout import state_key
from spark_jobs.storage.manifest import ManifestEntry, ObjectRole
from spark_jobs.storage.object_store import ObjectStore
from spark_jobs.storage.state_file import get_content, put_content
from spark_jobs.tables.index import INDEX

MAGIC = b"CARR"
VERSION = 1
_PREAMBLE = Struct(">4shi")
STRETCH_OFFSETS = 1 << 20
"""Offsets of one stretch: at most as many batches."""

CARRIED = np.dtype(
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
"""`object` counts in the file's objects; `offset` and `txn_first_offset` are -1 where there is none."""
_STORED = CARRIED.newbyteorder(">")


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class CarriedObject:
    """A staged object of an earlier night, as its manifest named it."""

    source: str
    path: str
    role: str
    size: int
    sha256: str
    version: str
    referenced: bool


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CarriedRows:
    """Rows of dtype `CARRIED` in arrival order, and the objects that they lie in, each at least once."""

    objects: tuple[CarriedObject, ...] = ()
    rows: Rows = field(default_factory=lambda: np.empty(0, dtype=CARRIED))


def carried_object(entry: ManifestEntry) -> CarriedObject:
    """What has to be kept of a manifest's entry."""
    return CarriedObject(
        source=entry.source,
        path=entry.path,
        role=entry.role.value,
        size=entry.size,
        sha256=entry.sha256,
        version=entry.version if entry.referenced else "",
        referenced=entry.referenced,
    )


def manifest_entry(carried: CarriedObject, *, order: int, topic: str, partition: int) -> ManifestEntry:
    """A carried object as an entry that `StagedObjects` can read."""
    return ManifestEntry(
        order=order,
        source=carried.source,
        role=ObjectRole(carried.role),
        topic=topic,
        partition=partition,
        path=carried.path,
        size=carried.size,
        sha256=carried.sha256,
        version=carried.version,
        referenced=carried.referenced,
    )


def carry(objects: Sequence[CarriedObject], rows: Rows) -> CarriedRows:
    """`rows` with only those of `objects` that they need, in the rows' order."""
    needed, first_use = np.unique(rows["object"], return_index=True)
    in_order = needed[np.argsort(first_use)]
    renumbered = np.zeros(len(objects), dtype=np.int32)
    renumbered[in_order] = np.arange(len(in_order))
    kept = rows.copy()
    kept["object"] = renumbered[rows["object"]]
    return CarriedRows(objects=tuple(objects[number] for number in in_order), rows=kept)


def write_carried(carried: CarriedRows) -> bytes:
    """The file of `carried`."""
    objects = canonical_json([asdict(each) for each in carried.objects])
    return _PREAMBLE.pack(MAGIC, VERSION, len(objects)) + objects + carried.rows.astype(_STORED).tobytes()


def read_carried(data: bytes, *, source: str = "<bytes>") -> CarriedRows:
    """The rows in `data`; `source` names it in messages."""
    if len(data) < _PREAMBLE.size:
        raise BrokenState(f"{source}: {len(data)} bytes are no file of carried rows")
    magic, version, size = _PREAMBLE.unpack_from(data)
    if (magic, version) != (MAGIC, VERSION):
        raise BrokenState(f"{source}: carried rows {magic!r} of version {version}, this one reads {VERSION}")
    start = _PREAMBLE.size + size
    objects = tuple(CarriedObject(**each) for each in json.loads(data[_PREAMBLE.size : start]))
    return CarriedRows(objects=objects, rows=np.frombuffer(data, dtype=_STORED, offset=start).astype(CARRIED))


def put_carried(lake: ObjectStore, carried: CarriedRows) -> str:
    """Keeps `carried` in the lake; its digest is its name, empty for no rows."""
    return put_content(lake, write_carried(carried)) if len(carried.rows) else ""


def get_carried(lake: ObjectStore, digest: str) -> CarriedRows:
    """The rows of that name, none for the empty name."""
    if not digest:
        return CarriedRows()
    return read_carried(get_content(lake, digest), source=lake.url_of(state_key(digest)))


def by_stretch(parts: Iterable[CarriedRows]) -> Iterator[tuple[int, CarriedRows]]:
    """Rows with offsets, by offset: those of each stretch together, with its number."""
    together: list[CarriedRows] = []
    current = -1
    for carried in parts:
        for number, part in _split(carried):
            if number != current and together:
                yield current, _together(together)
                together = []
            current = number
            together.append(part)
    if together:
        yield current, _together(together)


def _split(carried: CarriedRows) -> Iterator[tuple[int, CarriedRows]]:
    numbers = carried.rows["offset"].astype(np.int64) // STRETCH_OFFSETS
    edges = np.flatnonzero(np.diff(numbers)) + 1
    for start, stop in pairwise([0, *edges.tolist(), len(numbers)]):
        if start < stop:
            yield int(numbers[start]), CarriedRows(objects=carried.objects, rows=carried.rows[start:stop])


def _together(parts: Sequence[CarriedRows]) -> CarriedRows:
    """The parts as one, with the objects that it takes, each once."""
    objects: dict[CarriedObject, int] = {}
    moved: list[Rows] = []
    for part in parts:
        numbers = np.array([objects.setdefault(each, len(objects)) for each in part.objects], dtype=np.int32)
        rows = part.rows.copy()
        rows["object"] = numbers[part.rows["object"]]
        moved.append(rows)
    return carry(tuple(objects), np.concatenate(moved, dtype=CARRIED))


def carried_of(rows: pa.RecordBatch) -> Rows:
    """Rows of the table `index` as rows of `CARRIED`; `object` is their object's order."""
    carried = np.zeros(rows.num_rows, dtype=CARRIED)
    carried["object"] = values(rows, "object_order")
    carried["offset"] = carried["txn_first_offset"] = -1
    for name in (CARRIED.names or ())[1:-2]:
        carried[name] = values(rows, name)
    return carried


def index_rows_of(carried: Rows) -> pa.RecordBatch:
    """Rows of `CARRIED`, of which `object` is an object's order, as rows of the table `index`."""
    native = {name: np.ascontiguousarray(carried[name]) for name in CARRIED.names or ()}
    columns = {
        **native,
        "object_order": native["object"],
        "control_type": pa.array(native["control_type"], mask=native["control_type"] == NO_CONTROL_TYPE),
        "coordinator_epoch": pa.array(
            native["coordinator_epoch"], mask=native["coordinator_epoch"] == NO_COORDINATOR_EPOCH
        ),
        "problem": pa.nulls(len(carried), pa.string()),
        "records_without_key": np.zeros(len(carried), dtype=np.int32),
    }
    table = INDEX.cast(pa.table(columns))
    if not len(carried):
        return pa.RecordBatch.from_pylist([], schema=INDEX.schema)
    return concatenate(table.to_batches())
