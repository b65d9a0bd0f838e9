"""Judges the batches of a captured partition as its leader would have done."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_jobs.config.settings import Settings
from spark_jobs.config.sources import OnGap
from spark_jobs.kafka.formats.record_batch import (
    CODEC_MASK,
    CONTROL_FLAG,
    MAGIC_V2,
    TIMESTAMP_TYPE_FLAG,
    TRANSACTIONAL_FLAG,
    Codec,
    TimestampType,
)
from spark_jobs.kafka.producers.producer_state import TransactionVersion
from spark_jobs.kafka.producers.verdict import Rules
from spark_jobs.kafka.topic_partition import TopicPartition
from spark_jobs.kernels.admission import BatchColumns, DecisionColumns, batch_columns
from spark_jobs.kernels.log_bytes import MARKER_SIZE, marker_checksums
from spark_jobs.kernels.parking import PARKED, Freed, ParkedBatches
from spark_jobs.kernels.producers import Rows
from spark_jobs.lake.index_rows import (
    Labels,
    batches_of,
    chosen,
    concatenate,
    is_problem,
    iter_index,
    labels,
    take,
    values,
)
from spark_jobs.lake.inherited_rows import get_inherited, index_rows_of, inherited_of
from spark_jobs.lake.manifest import ManifestEntry
from spark_jobs.lake.object_store import ObjectStore
from spark_jobs.lake.states import PartitionState, get_state
from spark_jobs.pipeline.partition_memory import (
    CORRUPT,
    INVALID_RECORD,
    OPEN,
    Codes,
    IndexChunk,
    Judged,
    PartitionMemory,
    scatter,
    select_batches,
    select_decisions,
)
from spark_jobs.tables.admit import MARKER_OBJECT
from spark_jobs.tables.index import INDEX

# Arrival order, and markers from the coordinator's log.


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

    def chunk(self, rows: pa.RecordBatch) -> IndexChunk:
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
        return IndexChunk(rows=rows, copy=np.zeros(rows.num_rows, dtype=np.int32), preset=preset)


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


# Batches parked behind a sequence gap, also across runs.

Int64s = npt.NDArray[np.int64]
TIDY_ABOVE = 1 << 16
"""Freed places, before the parked batches are compacted."""


class ParkingMemory(PartitionMemory):
    """A partition's state with parked batches; `object` of their rows is their object's order."""

    def __init__(self, state: PartitionState, rules: Rules, *, parked: Rows, most: int) -> None:
        super().__init__(state, rules)
        self._rows = parked
        self._room = ParkedBatches(_batches(parked), rules=rules, most=most)

    def judge_with_parking(
        self, chunk: IndexChunk, is_parkable: npt.NDArray[np.bool_]
    ) -> tuple[Judged, Rows]:
        """What is decided now, by the chunk's batches and by those that they free."""
        is_open, used = chunk.preset == OPEN, self._room.used
        open_places = np.flatnonzero(is_open)
        batches = batches_of(chunk.rows)
        found, freed = self._room.arrive(
            select_batches(batches, is_open), is_parkable[is_open], self.producers
        )
        parked = open_places[self._room.parked_since(used)]
        self._rows = np.concatenate((self._rows, inherited_of(take(chunk.rows, parked))))
        decisions = scatter(found, is_open, chunk.preset, batches.base_offset)
        after = np.where(freed.after < 0, -1, open_places[freed.after])
        judged = self._in_order(chunk, decisions, freed, after)
        self._tidy()
        return judged, self._track(judged)

    def end(self) -> tuple[Judged, Rows]:
        """Ends the run: decides parked batches whose gap was not filled."""
        freed = self._room.end(self.producers)
        judged = self._judged(freed.places, freed.decisions)
        return judged, self._track(judged)

    def left(self) -> tuple[Judged, Rows]:
        """The batches that stay parked, as verdicts and as rows."""
        places, decisions = self._room.stay(self.producers)
        return self._judged(places, decisions), self._rows[places]

    def _track(self, judged: Judged) -> Rows:
        tracked = self.transactions.track(batches_of(judged.rows), judged.decisions)
        judged.outside_transaction[:] = tracked.outside_transaction
        return tracked.closed

    def _in_order(self, chunk: IndexChunk, decisions: DecisionColumns, freed: Freed, after: Int64s) -> Judged:
        """The chunk's rows that were decided, each with those that it freed behind it."""
        decided = np.flatnonzero(decisions.verdict != PARKED)
        freed_rows = index_rows_of(self._rows[freed.places])
        rows = (
            concatenate([take(chunk.rows, decided), freed_rows])
            if freed_rows.num_rows
            else take(chunk.rows, decided)
        )
        is_freed = np.arange(rows.num_rows) >= len(decided)
        order = np.lexsort((is_freed, np.concatenate((decided, after))))
        together = DecisionColumns._make(
            np.concatenate((getattr(decisions, name)[decided], getattr(freed.decisions, name)))
            for name in DecisionColumns._fields
        )
        return _judged(take(rows, order), select_decisions(together, order))

    def _judged(self, places: Int64s, decisions: DecisionColumns) -> Judged:
        return _judged(index_rows_of(self._rows[places]), decisions)

    def _tidy(self) -> None:
        if self._room.used - self._room.parked > max(TIDY_ABOVE, self._room.parked):
            self._rows = self._rows[self._room.tidy()]


def _judged(rows: pa.RecordBatch, decisions: DecisionColumns) -> Judged:
    return Judged(
        rows=rows,
        copy=np.zeros(rows.num_rows, dtype=np.int32),
        decisions=decisions,
        outside_transaction=np.zeros(rows.num_rows, dtype=np.bool_),
    )


def _batches(rows: Rows) -> BatchColumns:
    return batch_columns(rows[name] for name in BatchColumns._fields)


SOME_EARLIER_RUN = -1
"""`object` of a batch that an earlier run parked, where its bytes are not read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CapturedPartition:
    """One captured partition: its index files of the run, the objects behind them, its state at the start."""

    partition: TopicPartition
    keys: tuple[str, ...]
    objects: tuple[ManifestEntry, ...]
    state: str


JudgedRows = tuple[pa.RecordBatch, npt.NDArray[np.int8]]
"""Rows of the index in the order of their judgement, and the numbers of their verdicts."""


class CaptureJudge:
    """Judges the batches of one partition in arrival order.

    Of `parked`, `object` is an object's order.
    """

    def __init__(
        self,
        partition: TopicPartition,
        state: PartitionState,
        objects: CaptureObjects,
        settings: Settings,
        *,
        parked: Rows,
        enforce_open_transaction: bool = True,
    ) -> None:
        self._objects = objects
        self._rules = CaptureRules(partition, objects, settings)
        # The transaction version of a marker is not known, so none is refused for what only TV2 refuses.
        rules = Rules(
            transaction_version=settings.kafka.transaction_version,
            marker_version=TransactionVersion.TV1,
            enforce_open_transaction=enforce_open_transaction,
        )
        if state.parked or objects.any_may_park:
            most = settings.limits.parked_batches
            self.memory: PartitionMemory = ParkingMemory(state, rules, parked=parked, most=most)
        else:
            self.memory = PartitionMemory(state, rules)

    def chunk(self, rows: pa.RecordBatch) -> IndexChunk:
        """Rows with the verdicts that need no producer."""
        return self._rules.chunk(rows)

    def judge(self, part: IndexChunk) -> tuple[Judged, Rows]:
        """Decisions, and the transactions that were closed."""
        if isinstance(self.memory, ParkingMemory):
            return self.memory.judge_with_parking(part, self._objects.is_parkable(part.rows))
        return self.memory.judge(part)


def judge_producers(
    captured: CapturedPartition,
    lake: ObjectStore,
    settings: Settings,
    *,
    producers: Iterable[int],
    markers: pa.Table | None,
) -> Iterator[JudgedRows]:
    """The batches of `producers` as they are judged with these markers between; parked ones come last.

    Without markers it is not known when a transaction is over, and no batch is refused for an open one. A
    verdict depends on the batches of its own producer alone, so others are not judged; but parked batches of
    all producers share one limit, so all are judged where batches can be parked.
    """
    state = get_state(lake, captured.state)
    parked = get_inherited(lake, state.parked).rows
    parked["object"] = SOME_EARLIER_RUN
    judge = CaptureJudge(
        captured.partition,
        state,
        CaptureObjects(captured.objects, settings),
        settings,
        parked=parked,
        enforce_open_transaction=markers is not None,
    )
    own = np.array(sorted(producers), dtype=np.int64)
    can_park = isinstance(judge.memory, ParkingMemory)
    for rows in with_markers(iter_index(lake, captured.keys), markers):
        judged = rows if can_park else chosen(rows, np.isin(values(rows, "producer_id"), own))
        if judged.num_rows:
            yield _without_markers(judge.judge(judge.chunk(judged))[0])
    if isinstance(judge.memory, ParkingMemory):
        judge.memory.end()
        yield _without_markers(judge.memory.left()[0])


def _without_markers(judged: Judged) -> JudgedRows:
    is_captured = values(judged.rows, "object_order") != MARKER_OBJECT
    return chosen(judged.rows, is_captured), judged.decisions.verdict[is_captured]
