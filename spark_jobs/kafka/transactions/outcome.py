"""Outcomes of transactions and their evidence: column values and labels at once."""

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from spark_jobs.kafka.coordinator.timeline import CoordinatorTransaction
from spark_jobs.kafka.producers.verdict import Tone
from spark_jobs.kafka.topic_partition import TopicPartition
from spark_jobs.kafka.transactions.partition_transactions import PartitionTransaction


class Outcome(StrEnum):
    """Every transaction ends a run with exactly one of these; all but the first two are held."""

    _value_: str
    symbol: str
    tone: Tone
    meaning: str

    def __new__(cls, name: str, symbol: str, tone: Tone, meaning: str) -> Self:
        member = str.__new__(cls, name)
        member._value_ = name
        member.symbol, member.tone, member.meaning = symbol, tone, meaning
        return member

    COMMITTED = (
        "committed",
        "✓",
        Tone.GOOD,
        "Markers or the coordinator's log prove the commit: its records are published.",
    )
    ABORTED = (
        "aborted",
        "↶",
        Tone.CALM,
        "Markers or the coordinator's log prove the abort: its records are left out.",
    )
    ONGOING = (
        "ongoing",
        "…",
        Tone.WARN,
        "Open, or the copies do not prove how it ended: held until a later copy shows its end.",
    )
    HANGING = (
        "hanging",
        "⚠",
        Tone.BAD,
        (
            "Open for good: a newer copy of its coordinator's log does not know it, or calls it complete "
            "without its marker."
        ),
    )
    CONFLICT = (
        "conflict",
        "⚡",
        Tone.BAD,
        "Markers contradict the coordinator's log or each other: held.",
    )
    AMBIGUOUS = (
        "ambiguous",
        "?",
        Tone.WARN,
        "Its batches fit several transactions that ended differently: held.",
    )

    @property
    def is_decided(self) -> bool:
        return self is Outcome.COMMITTED or self is Outcome.ABORTED


class Evidence(StrEnum):
    """Why an outcome is what it is."""

    MARKER = "marker"
    """A marker on every partition that needs one, or on the only partition of the outcome."""
    COORDINATOR = "coordinator"
    """The coordinator's state of the transaction, which holds for every partition that it lists."""
    MARKER_ELSEWHERE = "marker elsewhere"
    """A marker of the same transaction on another partition."""
    PRODUCER_EPOCH = "producer epoch"
    """A TV2 client uses an epoch for one transaction only."""
    CLOCK = "clock"
    """Order and timestamps that differ by more than the clock skew."""
    TIMEOUT = "timeout"
    """Still ongoing when the coordinator's log was copied, past its timeout: the coordinator aborts it."""
    MARKER_MISSING = "marker missing"
    """Decided, but a partition with its data has no marker: a torn copy, or a marker never written."""
    MARKER_NEVER_WRITTEN = "marker never written"
    """The coordinator's log shows its end, but its marker was never written: consumers stop there."""
    AHEAD_OF_COORDINATOR = "ahead of the coordinator log"
    """Markers exist, but in the copy of the coordinator's log it is still ongoing."""
    CONTRADICTION = "contradiction"
    """Markers contradict the coordinator or each other."""
    END_NOT_RECORDED = "end not recorded"
    """The coordinator's log continues, or is unreadable, without the end of this transaction."""
    NOT_LISTED = "not listed"
    """The coordinator's log has the producer id, but no transaction that provably has this partition."""
    NO_COORDINATOR_ENTRY = "no coordinator entry"
    """The coordinator's log has no transaction that this can be."""
    NO_COORDINATOR_LOG = "no coordinator log"
    """There is no copy of the coordinator's log: markers alone decide."""
    SEVERAL_FIT = "several fit"
    """It can be one of several transactions that ended differently."""
    COORDINATOR_OLDER = "coordinator copy is older"
    """The copy of the coordinator's log appears older than the data, so it proves nothing."""
    NOT_PROVEN = "not proven"
    """The copies do not show that the coordinator's log is newer by more than the transaction's timeout."""
    GAP = "gap"
    """Missing offsets may hide a marker, so the data before them may belong to another transaction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedTransaction:
    """One transaction with its outcome; all of `parts` share it.

    `coordinator` is the coordinator's record of it, None if there is none. Without it, an older client's
    transaction has one row per partition.
    """

    transactional_id: str | None
    producer_id: int
    producer_epoch: int
    outcome: Outcome
    evidence: tuple[Evidence, ...]
    coordinator: CoordinatorTransaction | None
    parts: tuple[PartitionTransaction, ...]

    @property
    def partitions_expected(self) -> tuple[TopicPartition, ...]:
        """The partitions that the coordinator lists; empty if unknown."""
        return tuple(sorted(self._listed()))

    @property
    def partitions_found(self) -> tuple[TopicPartition, ...]:
        """Those that hold data of it."""
        return tuple(sorted(self._with_data()))

    @property
    def markers_missing(self) -> tuple[TopicPartition, ...]:
        """Partitions that hold data of it or should have a marker, but have none."""
        missing = self._with_data()
        missing.update(self._listed())
        missing.difference_update([part.topic_partition for part in self.parts if part.marker is not None])
        return tuple(sorted(missing))

    def _listed(self) -> Collection[TopicPartition]:
        return (self.coordinator and self.coordinator.topic_partitions) or ()

    def _with_data(self) -> set[TopicPartition]:
        return {part.topic_partition for part in self.parts if part.batch_count}

    @property
    def is_set_aside(self) -> bool:
        """Missing offsets leave its end unknown; the broker's consumers passed it, so it holds nothing."""
        return self.outcome is Outcome.AMBIGUOUS and self.evidence[0] is Evidence.GAP

    @property
    def batch_count(self) -> int:
        return sum(part.batch_count for part in self.parts)
