"""The rules of a captured partition, and what it remembers while they are applied: Onceover is its broker."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_jobs.admitting.capture_chunks import CaptureObjects, CaptureRules, with_markers
from spark_jobs.admitting.judging import Chunk, Judged, PartitionMemory
from spark_jobs.admitting.parking import ParkingMemory
from spark_jobs.config.settings import Settings
from spark_jobs.kernels.producers import Rows
from spark_jobs.protocol.decision import Rules
from spark_jobs.protocol.producer_state import TransactionVersion
from spark_jobs.protocol.topic_partition import TopicPartition
from spark_jobs.storage.index_rows import chosen, iter_index, values
from spark_jobs.storage.inherited_rows import get_inherited
from spark_jobs.storage.manifest import ManifestEntry
from spark_jobs.storage.object_store import ObjectStore
from spark_jobs.storage.state_file import PartitionState, get_state
from spark_jobs.tables.admit import MARKER_OBJECT

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
    """Judges the batches of one partition in arrival order; of `in_parking`, `object` is an object's
    order.
    """

    def __init__(
        self,
        partition: TopicPartition,
        state: PartitionState,
        objects: CaptureObjects,
        settings: Settings,
        *,
        in_parking: Rows,
        enforce_open_transaction: bool = True,
    ) -> None:
        self._objects = objects
        self._rules = CaptureRules(partition, objects, settings)
        # Under which version a marker was sent is not known, so none is refused for what only TV2 refuses.
        rules = Rules(
            transaction_version=settings.kafka.transaction_version,
            marker_version=TransactionVersion.TV1,
            enforce_open_transaction=enforce_open_transaction,
        )
        if state.parked or objects.any_may_park:
            most = settings.limits.parked_batches
            self.memory: PartitionMemory = ParkingMemory(state, rules, in_parking=in_parking, most=most)
        else:
            self.memory = PartitionMemory(state, rules)

    def chunk(self, rows: pa.RecordBatch) -> Chunk:
        """Rows with the verdicts that need no producer."""
        return self._rules.chunk(rows)

    def judge(self, part: Chunk) -> tuple[Judged, Rows]:
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
        in_parking=parked,
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
