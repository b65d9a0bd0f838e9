"""The coordinator's log, `__transaction_state`: as recorded, and as a replay writes it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from spark_jobs.kafka.formats.records import read_records
from spark_jobs.kafka.formats.transaction_state import (
    TransactionLogKey,
    TransactionLogValue,
    read_key,
    read_value,
)
from spark_jobs.kafka.partitioners import coordinator_partition
from tests.recordings.log_directory import TRANSACTION_TOPIC, LogDirectory, RecordedPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionRecord:
    """One record; no value is a tombstone."""

    transactional_id: str
    value: TransactionLogValue | None


def recorded_records(partition: RecordedPartition) -> Iterator[TransactionRecord]:
    """The records of one partition in offset order, except those of unknown kinds."""
    for batch in partition.batches:
        for record in () if batch.header.is_control else read_records(batch.data):
            key = read_key(record.key or b"")
            if isinstance(key, TransactionLogKey):
                value = None if record.value is None else read_value(record.value)
                yield TransactionRecord(transactional_id=key.transactional_id, value=value)


@dataclass(slots=True, kw_only=True)
class TransactionLog:
    """The records of a replayed coordinator, by transactional id, and the clock of the recorded one."""

    partitions: int
    recorded: Mapping[str, tuple[TransactionRecord, ...]]
    leaders: Mapping[int, RecordedPartition]
    cleaned: frozenset[int]
    written: dict[str, list[TransactionRecord]] = field(default_factory=dict)
    end_offsets: dict[int, int] = field(default_factory=dict)

    def append(self, record: TransactionRecord) -> None:
        self.written.setdefault(record.transactional_id, []).append(record)
        partition = self.partition_of(record.transactional_id)
        self.end_offsets[partition] = self.end_offsets.get(partition, 0) + 1

    def partition_of(self, transactional_id: str) -> int:
        return coordinator_partition(transactional_id, self.partitions)

    def is_cleaned(self, transactional_id: str) -> bool:
        return self.partition_of(transactional_id) in self.cleaned

    def time_of_next(self, transactional_id: str, default: int) -> int:
        """The recorded broker's clock when it wrote the record that the replay would write next."""
        if self.is_cleaned(transactional_id):
            return default
        index = len(self.written.get(transactional_id, ()))
        records = self.recorded.get(transactional_id, ())
        value = records[index].value if index < len(records) else None
        return default if value is None else value.transaction_last_update_timestamp_ms

    def coordinator_epoch(self, transactional_id: str) -> int:
        """The leader epoch under which the newest record of the id's partition was written."""
        partition = self.partition_of(transactional_id)
        leader = self.leaders.get(partition)
        return leader.leader_epoch_at(self.end_offsets.get(partition, 0) - 1) if leader else 0


def transaction_log_of(logs: LogDirectory, partitions: int) -> TransactionLog:
    """An empty log that knows the recorded one."""
    leaders = {p.topic_partition.partition: p for p in logs.of_topic(TRANSACTION_TOPIC)}
    recorded: dict[str, list[TransactionRecord]] = {}
    for partition in leaders.values():
        for record in recorded_records(partition):
            recorded.setdefault(record.transactional_id, []).append(record)
    return TransactionLog(
        partitions=partitions,
        recorded={transactional_id: tuple(records) for transactional_id, records in recorded.items()},
        leaders=leaders,
        cleaned=frozenset(tp.partition for tp in logs.cleaner_offsets if tp.topic == TRANSACTION_TOPIC),
    )
