"""Resolved transactions as rows, on their way from the join to the tables."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_jobs.protocol.coordinator_transaction import CoordinatorTransaction
from spark_jobs.protocol.topic_partition import TopicPartition
from spark_jobs.protocol.transaction_outcome import Evidence, Outcome, ResolvedTransaction
from spark_jobs.resolving.part_rows import PART, Part
from spark_jobs.resolving.sentences import sentence_of
from spark_jobs.tables.transactions import TRANSACTIONS

OUTCOMES = tuple(Outcome)
CODE_OF = {outcome: code for code, outcome in enumerate(OUTCOMES)}
COMMITTED, ABORTED = CODE_OF[Outcome.COMMITTED], CODE_OF[Outcome.ABORTED]
NONE = -1
KEEP_MS = 7 * 86_400_000
"""How long to wait for a missing marker; a coordinator forgets ids after that time (facts §3.1)."""
LATE_MS = 86_400_000
"""How long to wait for data of partitions that are not known, or whose markers nobody copies."""

JOINED_PARTS = pa.schema(
    [
        pa.field("transaction", pa.int32(), nullable=False),
        *(pa.field(name, pa.from_numpy_dtype(PART[name]), nullable=False) for name in PART.names or ()),
    ]
)
"""Parts with the number of their transaction, which counts in the file beside."""

CONCLUDED_LATER = ("published", "held_back", "abort_commands")
"""Columns of `transactions` that depend on how far partitions are published."""
JOINED_TRANSACTIONS = pa.schema(
    [
        *(each for each in TRANSACTIONS.schema if each.name not in CONCLUDED_LATER),
        pa.field("outcome_code", pa.int8(), nullable=False),
        pa.field("timed_out", pa.bool_(), nullable=False),
        pa.field("set_aside", pa.bool_(), nullable=False),
        pa.field("is_news", pa.bool_(), nullable=False),
        pa.field("is_ended", pa.bool_(), nullable=False),
        pa.field("coordinator_partition", pa.int32(), nullable=False),
        pa.field("first_record_offset", pa.int64(), nullable=False),
    ]
)
"""`is_ended` if every marker that is to come has come, as far as anybody can tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """What a task of the join resolved: keys of its files, and where undecided transactions begin.

    `undecided` is by partition number the start of the oldest one, the partition's end without any.
    """

    number: int
    parts: str
    transactions: str
    undecided: npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Which partition of the coordinator's log tells of a transaction, and whether tonight's records do."""

    coordinator_partition: int
    is_news: bool


@dataclass(slots=True)
class JoinedRows:
    """Collects transactions; `now` is the run's time, `marked` says of known partitions if markers come."""

    now: int
    marked: Mapping[TopicPartition, bool]
    parts: list[Part] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    transactions: list[tuple[Any, ...]] = field(default_factory=list)

    def add(self, resolved: ResolvedTransaction, parts: Sequence[Part], origin: Origin | None) -> None:
        """One transaction with its parts as rows, in the order of `resolved.parts`."""
        is_news = any(part.is_news for part in parts) or (origin is not None and origin.is_news)
        missing = resolved.markers_missing
        self.numbers.extend([len(self.transactions)] * len(parts))
        self.parts.extend(parts)
        self.transactions.append(
            (
                *self._described(resolved, parts, missing),
                CODE_OF[resolved.outcome],
                Evidence.TIMEOUT in resolved.evidence,
                resolved.is_set_aside,
                is_news,
                self._is_ended(resolved, missing),
                NONE if origin is None else origin.coordinator_partition,
                NONE if resolved.coordinator is None else resolved.coordinator.first_record_offset,
            )
        )

    def _described(
        self, resolved: ResolvedTransaction, parts: Sequence[Part], missing: tuple[TopicPartition, ...]
    ) -> tuple[Any, ...]:
        coordinator = resolved.coordinator
        with_data = [part for part in parts if part.batches]
        first_offsets: dict[TopicPartition, int] = {}
        for part, each in zip(parts, resolved.parts, strict=True):
            if part.batches:
                first_offsets.setdefault(each.topic_partition, part.first_offset)
        found = sorted(first_offsets)
        return (
            resolved.transactional_id,
            resolved.producer_id,
            resolved.producer_epoch,
            resolved.outcome.value,
            resolved.evidence,
            sentence_of(resolved),
            *_coordinators_view(coordinator),
            min((part.first_timestamp for part in with_data), default=None)
            if coordinator is None
            else coordinator.start_timestamp_ms,
            _end_timestamp(resolved),
            None
            if coordinator is None or coordinator.topic_partitions is None
            else list(map(name_of, resolved.partitions_expected)),
            list(map(name_of, found)),
            list(map(name_of, missing)),
            sum(part.batches for part in with_data),
            sum(part.records for part in with_data),
            [first_offsets[partition] for partition in found],
            () if coordinator is None else coordinator.coordinator_epochs,
            None if resolved.outcome.is_decided else self._age(resolved, parts),
        )

    def _age(self, resolved: ResolvedTransaction, parts: Sequence[Part]) -> int | None:
        """Time since the last batch, or since the coordinator's last record of one without any."""
        coordinator = resolved.coordinator
        last = max((part.last_timestamp for part in parts), default=None)
        if last is None and coordinator is not None:
            last = coordinator.last_update_timestamp_ms
        return None if last is None else max(self.now - last, 0)

    def _is_ended(self, resolved: ResolvedTransaction, missing: tuple[TopicPartition, ...]) -> bool:
        """Decided by somebody's word, with every marker there should be, or with none worth waiting for."""
        evidence = resolved.evidence
        if not resolved.outcome.is_decided or Evidence.TIMEOUT in evidence or Evidence.GAP in evidence:
            return False
        if not all(part.marker is not None for part in resolved.parts):
            return False
        coordinator = resolved.coordinator
        if coordinator is None:
            return True
        waited = self.now - coordinator.last_update_timestamp_ms
        return coordinator.state.is_complete and waited >= self._patience(coordinator, missing)

    def _patience(self, coordinator: CoordinatorTransaction, missing: tuple[TopicPartition, ...]) -> int:
        """How long more of a completed transaction may come, in ms, on partitions where nothing has yet."""
        if coordinator.topic_partitions is None:
            return KEEP_MS
        if any(self.marked.get(partition, False) for partition in missing):
            return KEEP_MS
        return LATE_MS if missing else 0

    def parts_table(self) -> pa.Table:
        """Rows of `JOINED_PARTS`."""
        rows = np.array(self.parts, dtype=PART)
        columns = [pa.array(self.numbers, pa.int32()), *(pa.array(rows[name]) for name in PART.names or ())]
        return pa.table(columns, schema=JOINED_PARTS)

    def transactions_table(self) -> pa.Table:
        """Rows of `JOINED_TRANSACTIONS`."""
        if not self.transactions:
            return JOINED_TRANSACTIONS.empty_table()
        columns: Iterable[Sequence[Any]] = zip(*self.transactions, strict=True)
        arrays = [
            pa.array(column, each.type) for column, each in zip(columns, JOINED_TRANSACTIONS, strict=True)
        ]
        return pa.table(arrays, schema=JOINED_TRANSACTIONS)


def _coordinators_view(coordinator: CoordinatorTransaction | None) -> tuple[Any, Any, Any]:
    """State, version and timeout, if the coordinator tells."""
    if coordinator is None:
        return None, None, None
    return (
        coordinator.state.label,
        coordinator.client_transaction_version,
        coordinator.transaction_timeout_ms,
    )


@lru_cache(maxsize=1 << 16)
def name_of(partition: TopicPartition) -> str:
    """`topic-partition`, remembered: they come again with every transaction."""
    return str(partition)


def _end_timestamp(resolved: ResolvedTransaction) -> int | None:
    """When it was decided: by the coordinator's clock, else by the first marker's."""
    if resolved.coordinator is not None and resolved.coordinator.end_timestamp_ms is not None:
        return resolved.coordinator.end_timestamp_ms
    return min((part.marker.timestamp for part in resolved.parts if part.marker is not None), default=None)
