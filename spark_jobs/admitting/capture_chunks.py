"""The batches of a captured partition in arrival order, with the markers that the coordinator's log gives."""

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_jobs.admitting.judging import CORRUPT, INVALID_RECORD, OPEN, Chunk, Codes
from spark_jobs.config.settings import Settings
from spark_jobs.config.sources import OnGap
from spark_jobs.kernels.log_bytes import MARKER_SIZE, marker_checksums
from spark_jobs.protocol.record_batch import (
    CODEC_MASK,
    CONTROL_FLAG,
    MAGIC_V2,
    TIMESTAMP_TYPE_FLAG,
    TRANSACTIONAL_FLAG,
    Codec,
    TimestampType,
)
from spark_jobs.protocol.topic_partition import TopicPartition
from spark_jobs.storage.index_rows import Labels, concatenate, is_problem, labels, take, values
from spark_jobs.storage.manifest import ManifestEntry
from spark_jobs.tables.admit import MARKER_OBJECT
from spark_jobs.tables.index import INDEX


class CaptureObjects:
    """The objects of a partition's batches, by their order."""

    def __init__(self, objects: Sequence[ManifestEntry], settings: Settings) -> None:
        ordered = sorted(objects, key=lambda entry: entry.order)
        self.entries = tuple(ordered)
        self._names = sorted({entry.source for entry in ordered}) or [""]
        self._orders = np.array([entry.order for entry in ordered], dtype=np.int32)
        self._sources = np.array(
            [self._names.index(entry.source) for entry in ordered] or [0], dtype=np.int32
        )
        known = [settings.source(name) if name else None for name in self._names]
        self._brings_markers = np.array([source is not None and source.markers for source in known])
        self._is_parkable = np.array([source is not None and source.on_gap is OnGap.PARK for source in known])

    def places(self, rows: pa.RecordBatch) -> npt.NDArray[np.int64]:
        """For every row the place of its object in `entries`; meaningless for a marker without object."""
        return np.searchsorted(self._orders, values(rows, "object_order")).clip(max=len(self._sources) - 1)

    def sources(self, rows: pa.RecordBatch) -> Labels:
        """The name of each row's source."""
        return labels(self._sources_of(rows), self._names)

    def _sources_of(self, rows: pa.RecordBatch) -> npt.NDArray[np.int32]:
        """For every row the place of its source's name."""
        if len(self._names) == 1:
            return np.zeros(rows.num_rows, dtype=np.int32)
        return self._sources[self.places(rows)]

    @property
    def any_may_park(self) -> bool:
        """Whether batches of any source may be parked."""
        return bool(self._is_parkable.any())

    def is_parkable(self, rows: pa.RecordBatch) -> npt.NDArray[np.bool_]:
        """Whether this row's batch may be parked."""
        may_park: npt.NDArray[np.bool_] = self._is_parkable[self._sources_of(rows)]
        return may_park

    def brings_markers(self, rows: pa.RecordBatch) -> npt.NDArray[np.bool_]:
        """Whether a control batch in this row's source is the coordinator's own."""
        is_own: npt.NDArray[np.bool_] = values(rows, "object_order") == MARKER_OBJECT
        return self._brings_markers[self._sources_of(rows)] | is_own


class CaptureRules:
    """Batches that a leader rejects before it checks the producer state (facts §2.11)."""

    def __init__(self, partition: TopicPartition, objects: CaptureObjects, settings: Settings) -> None:
        self._objects = objects
        timestamp_type = settings.topic(partition.topic).message_timestamp_type
        self._stamps_itself = timestamp_type is TimestampType.LOG_APPEND_TIME

    def chunk(self, rows: pa.RecordBatch) -> Chunk:
        """`rows` with the verdicts that need no producer."""
        attributes = values(rows, "attributes")
        is_refused = (attributes & CONTROL_FLAG != 0) & ~self._objects.brings_markers(rows)
        if self._stamps_itself:
            is_refused |= (attributes & (TIMESTAMP_TYPE_FLAG | CONTROL_FLAG)) == TIMESTAMP_TYPE_FLAG
        is_refused |= values(rows, "records_without_key") > 0
        is_refused |= ((attributes & CODEC_MASK) > max(Codec)) & (attributes & CONTROL_FLAG == 0)
        preset: Codes = np.full(rows.num_rows, OPEN, dtype=np.int8)
        preset[is_refused] = INVALID_RECORD
        preset[is_problem(rows)] = CORRUPT
        return Chunk(rows=rows, copy=np.zeros(rows.num_rows, dtype=np.int32), preset=preset)


def with_markers(chunks: Iterator[pa.RecordBatch], markers: pa.Table | None) -> Iterator[pa.RecordBatch]:
    """The index rows with `markers`, a table of that contract, before the rows that they name."""
    if markers is None or not markers.num_rows:
        yield from chunks
        return
    rows, orders = marker_rows(markers), markers["before_object_order"].to_numpy()
    positions, done = markers["before_position"].to_numpy(), 0
    for chunk in chunks:
        found = _count_before(orders, positions, chunk)
        yield _merged(chunk, rows, orders, positions, slice(done, found)) if found > done else chunk
        done = max(done, found)
    if done < rows.num_rows:
        yield rows.slice(done)


def marker_rows(markers: pa.Table) -> pa.RecordBatch:
    """Markers as rows of the index; they are in no object."""
    count = markers.num_rows
    timestamp = markers["timestamp"].to_numpy()
    names = ("producer_id", "producer_epoch", "control_type", "coordinator_epoch")
    given = {name: markers[name].to_numpy() for name in names}
    known = {
        "object_order": np.full(count, MARKER_OBJECT),
        "position": -1 - np.arange(count),
        "size": np.full(count, MARKER_SIZE),
        "magic": np.full(count, MAGIC_V2),
        "attributes": np.full(count, TRANSACTIONAL_FLAG | CONTROL_FLAG),
        "base_timestamp": timestamp,
        "max_timestamp": timestamp,
        "base_sequence": np.full(count, -1),
        "record_count": np.ones(count),
        "problem": pa.nulls(count, pa.string()),
        "crc": marker_checksums({**given, "max_timestamp": timestamp}),
        **given,
    }
    columns = {name: known.get(name, np.zeros(count)) for name in INDEX.schema.names}
    return INDEX.cast(pa.table(columns)).combine_chunks().to_batches()[0]


def _count_before(
    orders: npt.NDArray[np.int32], positions: npt.NDArray[np.int64], chunk: pa.RecordBatch
) -> int:
    """How many markers, which are in order, come before the chunk's last row or earlier."""
    order, position = values(chunk, "object_order")[-1], values(chunk, "position")[-1]
    return int(np.count_nonzero((orders < order) | ((orders == order) & (positions <= position))))


def _merged(
    chunk: pa.RecordBatch,
    rows: pa.RecordBatch,
    orders: npt.NDArray[np.int32],
    positions: npt.NDArray[np.int64],
    due: slice,
) -> pa.RecordBatch:
    count = due.stop - due.start
    order = np.concatenate((orders[due], values(chunk, "object_order")))
    position = np.concatenate((positions[due], values(chunk, "position")))
    is_row = np.arange(len(order)) >= count
    together = concatenate([rows.slice(due.start, count), chunk])
    return take(together, np.lexsort((is_row, position, order)))
