"""How long a transaction that its coordinator has completed is waited for."""

from collections.abc import Mapping
from dataclasses import dataclass

from spark_jobs.protocol.coordinator_transaction import CoordinatorTransaction
from spark_jobs.protocol.topic_partition import TopicPartition

KEEP_MS = 7 * 86_400_000
"""How long to wait for a missing marker; a coordinator forgets ids after that time (facts §3.1)."""
LATE_MS = 86_400_000
"""How long to wait for data of partitions that are not known, or whose markers nobody copies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """`now` is the run's time, `marked` says of known partitions if markers come."""

    now: int
    marked: Mapping[TopicPartition, bool]

    def is_over(
        self, coordinator: CoordinatorTransaction | None, missing: tuple[TopicPartition, ...]
    ) -> bool:
        """Whether nothing more is to come by what its coordinator tells, if it tells of it at all."""
        if coordinator is None:
            return True
        waited = self.now - coordinator.last_update_timestamp_ms
        return coordinator.state.is_complete and waited >= self._limit(coordinator, missing)

    def _limit(self, coordinator: CoordinatorTransaction, missing: tuple[TopicPartition, ...]) -> int:
        """How long more of a completed transaction may come, in ms, on partitions where nothing has yet."""
        if coordinator.topic_partitions is None:
            return KEEP_MS
        if any(self.marked.get(partition, False) for partition in missing):
            return KEEP_MS
        return LATE_MS if missing else 0
