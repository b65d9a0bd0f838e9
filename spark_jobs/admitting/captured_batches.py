"""Transactional batches of a captured partition, as far as they show which transactions their producers ran.

Only what a broker accepts counts: a batch that is repeated, too early or from a zombie shows nothing.
But all that is sent with an epoch is sent before that epoch is over, so it moves the end behind itself.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_jobs.admitting.capture_judge import JudgedRows
from spark_jobs.protocol.record_batch import CONTROL_FLAG, MAGIC_V2, TRANSACTIONAL_FLAG
from spark_jobs.protocol.verdict import VERDICTS, Verdict
from spark_jobs.storage.index_rows import is_problem, iter_index, values
from spark_jobs.storage.object_store import ObjectStore

AT_THE_START = -(2**31)
"""`object_order` of what comes before everything of the run."""
_PARKED = VERDICTS.index(Verdict.PARKED)
_ACCEPTED = VERDICTS.index(Verdict.ACCEPTED)
_SENT_AMISS = frozenset(
    map(VERDICTS.index, (Verdict.DUPLICATE, Verdict.STALE_DUPLICATE, Verdict.OUT_OF_ORDER))
)

Place = tuple[int, int]
"""Object order and position."""


class CapturedBatch(NamedTuple):
    """One batch: when it was written, and how far its producer then was in the stream."""

    producer_epoch: int
    timestamp: int
    object_order: int
    position: int


@dataclass(slots=True)
class Chain:
    """A producer's accepted batches; `is_cut` if others of the last epoch are parked behind them.

    `is_mixed` if there are plain ones, too, which a broker takes only while no transaction is open. Of an
    epoch that names one transaction only the first and the last batch are kept.
    """

    named_epochs: frozenset[int] = frozenset()
    batches: list[CapturedBatch] = field(default_factory=list)
    is_cut: bool = False
    is_mixed: bool = False

    def add(self, epoch: int, timestamp: int, verdict: int, place: Place) -> None:
        """One batch with its verdict, in the order of their judgement."""
        if verdict == _ACCEPTED:
            self._take(CapturedBatch(epoch, timestamp, *place))
        elif self.batches and self.batches[-1].producer_epoch == epoch:
            self.is_cut |= verdict == _PARKED
            if verdict in _SENT_AMISS:
                self.batches[-1] = CapturedBatch(epoch, self.batches[-1].timestamp, *place)

    def _take(self, batch: CapturedBatch) -> None:
        epoch, last = batch.producer_epoch, self.batches[-2:]
        if epoch in self.named_epochs and [each.producer_epoch for each in last] == [epoch, epoch]:
            self.batches[-1] = batch
        else:
            self.batches.append(batch)


def producers_in(lake: ObjectStore, keys: Iterable[str]) -> set[int]:
    """The producers that have transactional batches in these index files."""
    found: set[int] = set()
    for rows in iter_index(lake, keys, columns=["producer_id", "attributes", "magic", "problem"]):
        found.update(np.unique(values(rows, "producer_id")[_is_transactional(rows)]).tolist())
    return found


def follow(chains: Mapping[int, Chain], judged: Iterable[JudgedRows]) -> None:
    """Adds the run's batches to the chains of their producers."""
    producers, reached = np.array(sorted(chains), dtype=np.int64), (AT_THE_START, 0)
    for rows, verdicts in judged:
        is_known, is_transactional = np.isin(values(rows, "producer_id"), producers), _is_transactional(rows)
        for producer_id in np.unique(values(rows, "producer_id")[is_known & ~is_transactional]).tolist():
            chains[producer_id].is_mixed = True
        wanted, places = is_known & is_transactional, _reached(rows, reached)
        for producer_id, epoch, timestamp, verdict, *place in _columns(rows, verdicts, places, wanted):
            chains[producer_id].add(epoch, timestamp, verdict, (place[0], place[1]))
        reached = (int(places[0][-1]), int(places[1][-1])) if rows.num_rows else reached


Places = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]


def _reached(rows: pa.RecordBatch, before: Place) -> Places:
    """How far the stream was at each row: a parked batch is judged behind the one that fills its gap."""
    orders = np.concatenate(([before[0]], values(rows, "object_order"))).astype(np.int64)
    positions = np.concatenate(([before[1]], values(rows, "position"))).astype(np.int64)
    ascending = np.lexsort((positions, orders))
    rank = np.empty_like(ascending)
    rank[ascending] = np.arange(ascending.size)
    furthest = ascending[np.maximum.accumulate(rank)][1:]
    return orders[furthest], positions[furthest]


def _columns(
    rows: pa.RecordBatch, verdicts: npt.NDArray[np.int8], places: Places, wanted: npt.NDArray[np.bool_]
) -> Iterator[tuple[int, ...]]:
    names = ("producer_id", "producer_epoch", "max_timestamp")
    columns = (*(values(rows, name) for name in names), verdicts, *places)
    return zip(*(column[wanted].tolist() for column in columns), strict=True)


def _is_transactional(rows: pa.RecordBatch) -> npt.NDArray[np.bool_]:
    flags = values(rows, "attributes") & (TRANSACTIONAL_FLAG | CONTROL_FLAG)
    found: npt.NDArray[np.bool_] = (
        (flags == TRANSACTIONAL_FLAG) & (values(rows, "magic") >= MAGIC_V2) & ~is_problem(rows)
    )
    return found
