"""Transactional batches of a captured partition, as far as they tell which transactions their producers ran.

Retries and zombies say nothing: a batch whose sequence or epoch does not go on from what its producer has
sent before will not be taken, so it is passed over here, too.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from spark_jobs.kernels.producers import Rows
from spark_jobs.protocol.producer_state import NO_OFFSET
from spark_jobs.protocol.record_batch import CONTROL_FLAG, MAGIC_V2, NO_PRODUCER_EPOCH, TRANSACTIONAL_FLAG
from spark_jobs.storage.index_rows import is_problem, iter_index, values
from spark_jobs.storage.object_store import ObjectStore

_COLUMNS = (
    "producer_id",
    "producer_epoch",
    "base_sequence",
    "last_offset_delta",
    "max_timestamp",
    "object_order",
    "position",
)
_READ = [*_COLUMNS, "attributes", "magic", "problem"]
_HALF_OF_SEQUENCES = 2**30
NO_SEQUENCE = -1


class CapturedBatch(NamedTuple):
    """One batch: when it was written, and its place in the stream."""

    producer_epoch: int
    timestamp: int
    object_order: int
    position: int


@dataclass(slots=True)
class Chain:
    """A producer's batches that go on from each other; `epoch` and `sequence` are those of the last one.

    Of an epoch that names one transaction only the first and the last batch are kept.
    """

    epoch: int = NO_PRODUCER_EPOCH
    sequence: int = NO_SEQUENCE
    named_epochs: frozenset[int] = frozenset()
    batches: list[CapturedBatch] = field(default_factory=list)

    def add(self, batch: CapturedBatch, base_sequence: int, last_offset_delta: int) -> None:
        """Takes the batch if it goes on."""
        if batch.producer_epoch < self.epoch:
            return
        if batch.producer_epoch == self.epoch and not _follows(self.sequence, base_sequence):
            return
        self.epoch, self.sequence = batch.producer_epoch, base_sequence + last_offset_delta
        if self._is_inner(batch):
            self.batches[-1] = batch
        else:
            self.batches.append(batch)

    def _is_inner(self, batch: CapturedBatch) -> bool:
        epoch, last = batch.producer_epoch, self.batches[-2:]
        return epoch in self.named_epochs and [each.producer_epoch for each in last] == [epoch, epoch]


def _follows(last: int, base_sequence: int) -> bool:
    """Whether a sequence lies behind `last`; a far smaller one has wrapped around."""
    return base_sequence > last or last - base_sequence > _HALF_OF_SEQUENCES


def producers_in(lake: ObjectStore, keys: Iterable[str]) -> set[int]:
    """The producers that have transactional batches in these index files."""
    found: set[int] = set()
    for rows in iter_index(lake, keys, columns=["producer_id", "attributes", "magic", "problem"]):
        found.update(np.unique(values(rows, "producer_id")[_is_transactional(rows)]).tolist())
    return found


def chains_of(
    lake: ObjectStore, keys: Iterable[str], producers: Rows, named_epochs: Mapping[int, frozenset[int]]
) -> dict[int, Chain]:
    """The batches of the producers in `named_epochs`; `producers` is what the partition remembers of them."""
    chains = {producer_id: Chain(named_epochs=epochs) for producer_id, epochs in named_epochs.items()}
    for row in producers[np.isin(producers["producer_id"], list(named_epochs))]:
        chain = chains[int(row["producer_id"])]
        chain.epoch, chain.sequence = int(row["producer_epoch"]), _last_sequence(row)
    for rows in iter_index(lake, keys, columns=_READ):
        for producer_id, epoch, sequence, delta, timestamp, order, position in _transactional(rows):
            if producer_id in chains:
                batch = CapturedBatch(epoch, timestamp, order, position)
                chains[producer_id].add(batch, sequence, delta)
    return chains


def _transactional(rows: pa.RecordBatch) -> Iterator[tuple[int, ...]]:
    wanted = _is_transactional(rows)
    return zip(*(values(rows, name)[wanted].tolist() for name in _COLUMNS), strict=True)


def _is_transactional(rows: pa.RecordBatch) -> "np.typing.NDArray[np.bool_]":
    flags = values(rows, "attributes") & (TRANSACTIONAL_FLAG | CONTROL_FLAG)
    found: np.typing.NDArray[np.bool_] = (
        (flags == TRANSACTIONAL_FLAG) & (values(rows, "magic") >= MAGIC_V2) & ~is_problem(rows)
    )
    return found


def _last_sequence(row: "np.void") -> int:
    """The last sequence that a canonical producer row remembers."""
    count = int(row["batches"])
    return (
        int(row["last_sequence"][count - 1])
        if count and int(row["last_offset"][count - 1]) > NO_OFFSET
        else NO_SEQUENCE
    )
