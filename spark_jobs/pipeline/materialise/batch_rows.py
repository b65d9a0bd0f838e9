"""Rows of batches as the columns that kernels read, from the table `batches` or from inherited rows."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.config.settings import Settings
from spark_jobs.kafka.formats.record_batch import CONTROL_FLAG, MAGIC_V2
from spark_jobs.kafka.producers.verdict import Verdict
from spark_jobs.kafka.topic_partition import TopicPartition
from spark_jobs.kernels.columns import HeaderColumns, concatenate
from spark_jobs.kernels.producers import Rows
from spark_jobs.lake.inherited_rows import InheritedRows, get_inherited, manifest_entry
from spark_jobs.lake.manifest import ManifestEntry, StagedObjects
from spark_jobs.lake.object_store import ObjectStore
from spark_jobs.lake.parquet_file import iter_row_range
from spark_jobs.lake.stores import open_store
from spark_jobs.pipeline.materialise.job import ObjectPlace, PartitionPlan, RowChunk
from spark_jobs.tables.admit import MARKER_OBJECT

NONE = -1
"""In place of a null offset."""

HEADER_NAMES = tuple(name for name in HeaderColumns._fields if name != "crc_ok")
COLUMNS = [*HEADER_NAMES, "object_order", "verdict", "offset", "txn_first_offset"]
"""What is read of the table `batches`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRows:
    """Batches, accepted ones ascending; `headers.base_offset` is the offset that each was given, or `NONE`.

    `object_order` is that of each batch's object, `txn_first_offset` where its transaction began, or `NONE`.
    """

    headers: HeaderColumns
    is_accepted: npt.NDArray[np.bool_]
    object_order: npt.NDArray[np.int32]
    txn_first_offset: npt.NDArray[np.int64]

    @property
    def rows(self) -> int:
        return self.headers.rows

    @property
    def is_data(self) -> npt.NDArray[np.bool_]:
        """Whether a batch holds records rather than a marker."""
        is_control = (self.headers.attributes & CONTROL_FLAG).astype(np.bool_)
        return ~is_control | (self.headers.magic < MAGIC_V2)

    @property
    def is_given_marker(self) -> npt.NDArray[np.bool_]:
        """Whether a batch is a marker that the coordinator's log gave: it is in no object."""
        given: npt.NDArray[np.bool_] = self.object_order == MARKER_OBJECT
        return given

    @property
    def last_offset(self) -> npt.NDArray[np.int64]:
        return self.headers.base_offset + self.headers.last_offset_delta

    @property
    def span(self) -> tuple[int, int]:
        """Where in their object the first of them begins and the last one ends."""
        return int(self.headers.position[0]), int(self.headers.position[-1] + self.headers.size[-1])

    def take(self, chosen: npt.NDArray[Any] | slice) -> "BatchRows":
        """The rows at the indices, under the mask, or in the slice `chosen`."""
        return BatchRows(
            headers=HeaderColumns._make(column[chosen] for column in self.headers),
            is_accepted=self.is_accepted[chosen],
            object_order=self.object_order[chosen],
            txn_first_offset=self.txn_first_offset[chosen],
        )

    def move(self, by: int) -> "BatchRows":
        """The same batches, their positions `by` bytes further on."""
        return replace(self, headers=self.headers._replace(position=self.headers.position + by))

    def parts(self, cuts: npt.NDArray[np.int64]) -> Iterator["BatchRows"]:
        """The rows up to each of `cuts`, and those after the last; never an empty part."""
        edges = [0, *cuts.tolist(), self.rows]
        for start, end in pairwise(edges):
            if start < end:
                yield self.take(slice(start, end))


def join_rows(parts: Sequence[BatchRows]) -> BatchRows:
    """All rows of `parts`, in order."""
    return BatchRows(
        headers=concatenate([part.headers for part in parts]),
        is_accepted=np.concatenate([part.is_accepted for part in parts]),
        object_order=np.concatenate([part.object_order for part in parts]),
        txn_first_offset=np.concatenate([part.txn_first_offset for part in parts]),
    )


def from_batches(batch: pa.RecordBatch) -> BatchRows:
    """Rows of the table `batches`."""
    columns = {name: _numbers(batch.column(name)) for name in HEADER_NAMES}
    return _rows(
        {**columns, "base_offset": _numbers(batch.column("offset"))},
        is_accepted=np.asarray(pc.equal(batch.column("verdict"), pa.scalar(Verdict.ACCEPTED.value))),
        object_order=_numbers(batch.column("object_order")),
        txn_first_offset=_numbers(batch.column("txn_first_offset")),
    )


def from_inherited(rows: Rows) -> BatchRows:
    """Rows of dtype `INHERITED`; their objects count in the file that they come from."""
    columns = {name: _native(rows[name]) for name in HEADER_NAMES}
    return _rows(
        {**columns, "base_offset": _native(rows["offset"])},
        is_accepted=np.ones(rows.size, dtype=np.bool_),
        object_order=_native(rows["object"]),
        txn_first_offset=_native(rows["txn_first_offset"]),
    )


def _rows(
    columns: dict[str, npt.NDArray[Any]],
    *,
    is_accepted: npt.NDArray[np.bool_],
    object_order: npt.NDArray[np.int32],
    txn_first_offset: npt.NDArray[np.int64],
) -> BatchRows:
    crc_ok = np.ones(object_order.size, dtype=np.bool_)
    return BatchRows(
        headers=HeaderColumns(**columns, crc_ok=crc_ok),
        is_accepted=is_accepted,
        object_order=object_order,
        txn_first_offset=txn_first_offset,
    )


def _numbers(column: "pa.Array[Any]") -> npt.NDArray[Any]:
    filled = column.fill_null(NONE) if column.null_count else column
    return np.asarray(filled)


def _native(column: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return column.astype(column.dtype.newbyteorder("="))


# The rows of a partition, and the objects with their bytes.

ALL_ROWS = 2**62


def rows_of_run(
    lake: ObjectStore, plan: PartitionPlan, first: int = 0, stop: int = ALL_ROWS
) -> Iterator[BatchRows]:
    """Rows `first` to `stop` of the partition's `batches`, in parts."""
    if plan.batches:
        for part in iter_row_range(lake, plan.batches, first, stop, columns=COLUMNS):
            yield from_batches(part)


def held_rows(lake: ObjectStore, digest: str) -> BatchRows:
    """The held rows of earlier runs."""
    return from_inherited(get_inherited(lake, digest).rows)


def place_of(settings: Settings, entry: ManifestEntry) -> ObjectPlace:
    """Where the bytes of a staged object are."""
    at = StagedObjects(settings).locate(entry)
    return ObjectPlace(
        order=entry.order,
        store=at.store.url,
        key=at.key,
        version=at.version,
        source=entry.source,
        path=entry.path,
    )


@dataclass(frozen=True, slots=True)
class Objects:
    """Staged objects by the order that rows name them with."""

    settings: Settings
    places: dict[int, ObjectPlace]

    def read(self, order: int, start: int, length: int) -> bytes:
        """Bytes of an object."""
        place = self.places[order]
        store = open_store(place.store, self.settings.s3)
        return store.read_range(place.key, start, length, version=place.version)

    def name(self, order: int) -> str:
        """Its name in messages."""
        return self.places[order].name


RowsAndObjects = tuple[Objects, Iterator[BatchRows]]


def rows_and_objects(
    lake: ObjectStore, settings: Settings, plan: PartitionPlan, chunk: RowChunk
) -> RowsAndObjects:
    """The rows of a chunk, and the objects that they count in."""
    if not chunk.held:
        objects = Objects(settings, {place.order: place for place in plan.objects})
        return objects, rows_of_run(lake, plan, chunk.first_row, chunk.stop_row)
    objects, rows = inherited_batches(lake, settings, plan.partition, chunk.held)
    return objects, iter((rows.take(slice(chunk.first_row, chunk.stop_row)),))


def inherited_batches(
    lake: ObjectStore, settings: Settings, partition: TopicPartition, digest: str
) -> tuple[Objects, BatchRows]:
    """All rows of a file of inherited rows, and their objects."""
    inherited = get_inherited(lake, digest)
    return Objects(settings, _inherited_places(settings, inherited, partition)), from_inherited(
        inherited.rows
    )


def _inherited_places(
    settings: Settings, inherited: InheritedRows, partition: TopicPartition
) -> dict[int, ObjectPlace]:
    entries = (
        manifest_entry(each, order=order, topic=partition.topic, partition=partition.partition)
        for order, each in enumerate(inherited.objects)
    )
    return {entry.order: place_of(settings, entry) for entry in entries}
