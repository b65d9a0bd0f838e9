"""Hanging transactions: how to abort them, and how copies of logs prove them (facts §3.8-3.9)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from shlex import quote

from spark_jobs.kafka.topic_partition import TopicPartition
from spark_jobs.kafka.transactions.partition_transactions import PartitionTransaction, WrittenMarker

MAX_TRANSACTION_TIMEOUT_MS = 900_000
"""Kafka's own tool reports only transactions older than this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HangingTransaction:
    """A transaction left open on one partition.

    `held_back` is the number of offsets that a read_committed consumer of the partition cannot reach because
    of it, 0 if an older transaction is open before it.
    """

    topic_partition: TopicPartition
    producer_id: int
    producer_epoch: int
    start_offset: int
    held_back: int

    def advice(self, transactional_id: str | None, bootstrap_server: str = "localhost:9092") -> str:
        """Instructions for an operator: what to check first, the command, and its effect."""
        tool = f"kafka-transactions.sh --bootstrap-server {bootstrap_server}"
        topic, partition = self.topic_partition.in_kafka
        place = f"--topic {quote(topic)} --partition {partition}"
        check = (
            f"`{tool} describe-producers {place}` must still show producer {self.producer_id}, epoch "
            f"{self.producer_epoch}, with CurrentTransactionStartOffset {self.start_offset}"
        )
        if transactional_id is not None:
            check += (
                f", and `{tool} describe --transactional-id {quote(transactional_id)}` must not show it as "
                f"Ongoing with partition {self.topic_partition.in_kafka}"
            )
        return (
            f"check first: {check}; only then run `{tool} abort {place} --start-offset {self.start_offset}`, "
            "which discards its records for good, even if a live producer commits them afterwards"
        )


def hanging_transaction(
    part: PartitionTransaction, *, last_stable_offset: int, high_watermark: int
) -> HangingTransaction:
    """An open `part` as a hanging transaction."""
    is_oldest = part.first_offset <= last_stable_offset
    return HangingTransaction(
        topic_partition=part.topic_partition,
        producer_id=part.producer_id,
        producer_epoch=part.producer_epoch,
        start_offset=part.first_offset,
        held_back=high_watermark - last_stable_offset if is_oldest else 0,
    )


def find_hanging(
    open_parts: Iterable[PartitionTransaction],
    described: dict[int, frozenset[TopicPartition] | None],
    *,
    now: int,
    max_transaction_timeout_ms: int = MAX_TRANSACTION_TIMEOUT_MS,
) -> tuple[PartitionTransaction, ...]:
    """What `kafka-transactions.sh find-hanging` reports (facts §9 rows 168-169); no step uses it.

    `described` holds for each current producer id the partitions of its transaction, None if its id could not
    be described; neither state nor epoch is compared.
    """
    late = (p for p in open_parts if now - p.last_timestamp > max_transaction_timeout_ms)
    return tuple(p for p in late if p.topic_partition not in (described.get(p.producer_id) or frozenset()))


STATE_PARTITIONS = 50
"""Kafka's default of `transaction.state.log.num.partitions`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyReach:
    """How far in time the copies of logs reach; milliseconds since 1970.

    `recorded_until` is the time of the newest record by partition of __transaction_state, `marked_until` that
    of the newest marker by partition: the copies are not older. `started` and `finished` are when copying a
    partition began and ended, if a file records it; both have keys for the coordinator's partitions, too.
    `state_partitions` is the number of partitions of __transaction_state, copied or not.
    """

    recorded_until: Mapping[int, int] = field(default_factory=dict)
    marked_until: Mapping[TopicPartition, int] = field(default_factory=dict)
    started: Mapping[TopicPartition, int] = field(default_factory=dict)
    finished: Mapping[TopicPartition, int] = field(default_factory=dict)
    coordinator_started: Mapping[int, int] = field(default_factory=dict)
    state_partitions: int = STATE_PARTITIONS
    clock_skew_ms: int = 0

    @property
    def newest(self) -> int | None:
        """The latest time that any copy reaches: ages are measured from it."""
        times = (self.recorded_until, self.marked_until, self.started, self.coordinator_started)
        return max((time for each in times for time in each.values()), default=None)

    def data_time(self, partition: TopicPartition) -> int | None:
        """A lower bound for the time of a partition's copy."""
        return _latest(self.marked_until.get(partition), self.started.get(partition))

    def coordinator_time(self, coordinator: int | None) -> int | None:
        """A lower bound for the time of the copy of the coordinator's partition; None: of every partition."""
        if coordinator is not None:
            return _latest(self.recorded_until.get(coordinator), self.coordinator_started.get(coordinator))
        return reduce(_earliest, map(self.coordinator_time, range(self.state_partitions)))

    def has_seen(self, partition: TopicPartition, timestamp: int) -> bool:
        """Whether the partition's copy is certainly later than that time, by more than the clock skew."""
        reached = self.data_time(partition)
        return reached is not None and reached > timestamp + self.clock_skew_ms

    def is_behind(self, part: PartitionTransaction, coordinator: int | None) -> bool:
        """Whether the coordinator's copy appears older than the copy of the data."""
        reached = self.coordinator_time(coordinator)
        data = _latest(self.data_time(part.topic_partition), part.last_timestamp)
        return reached is None or data is None or reached < data

    def is_newer(self, part: PartitionTransaction, coordinator: int | None) -> bool:
        """Whether the coordinator's log was certainly copied after the part's last batch was appended.

        Without a `coordinator` this must hold for every partition of its log.
        """
        if coordinator is None:
            return all(self._is_newer(part, each) for each in range(self.state_partitions))
        return self._is_newer(part, coordinator)

    def is_over(self, part: PartitionTransaction, coordinator: int | None, timeout_ms: int) -> bool:
        """Whether the part is certainly hanging: `is_newer`, and its timeout had passed by then.

        Only valid if the coordinator's log has no such transaction ongoing.
        """
        reached = self.coordinator_time(coordinator)
        if reached is None or reached <= part.last_timestamp + timeout_ms + self.clock_skew_ms:
            return False
        return self.is_newer(part, coordinator)

    def _is_newer(self, part: PartitionTransaction, coordinator: int) -> bool:
        recorded, appended_by = self.recorded_until.get(coordinator), part.appended_by
        if recorded is not None and appended_by is not None and recorded > appended_by + self.clock_skew_ms:
            return True
        started, finished = self.coordinator_started.get(coordinator), self._finished(part)
        return started is not None and finished is not None and started >= finished

    def _finished(self, part: PartitionTransaction) -> int | None:
        """When the copy of the part's partition was finished; None if the copy itself shows a later time."""
        finished = self.finished.get(part.topic_partition)
        shown = _latest(self.marked_until.get(part.topic_partition), part.last_timestamp)
        if finished is None or shown is None or finished < shown - self.clock_skew_ms:
            return None
        return finished


def appended_by(part: PartitionTransaction, markers: Iterable[WrittenMarker]) -> int | None:
    """The earliest broker time by which the part's last batch was appended: that of a later marker."""
    return min((each.timestamp for each in markers if each.offset > part.last_offset), default=None)


def _latest(one: int | None, other: int | None) -> int | None:
    return max((each for each in (one, other) if each is not None), default=None)


def _earliest(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else min(one, other)
