"""A client of the cluster: it numbers its batches, and may send them twice, late or never."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from spark_jobs.protocol.batch_builder import build_batch
from spark_jobs.protocol.coordinator_effects import ProducerIdReply
from spark_jobs.protocol.end_txn import TransactionResult
from spark_jobs.protocol.record_batch import Codec
from spark_jobs.protocol.records import Header, Record
from spark_jobs.protocol.topic_partition import TopicPartition
from spark_jobs.sample.cluster import Cluster

Event = tuple[str | None, Mapping[str, object]]
"""A record's key if it has one, and what becomes its value as JSON."""


@dataclass(slots=True)
class Producer:
    """An idempotent producer; with a transactional id, every batch belongs to a transaction."""

    cluster: Cluster
    name: str
    transactional_id: str | None = None
    codec: Codec = Codec.NONE
    identity: ProducerIdReply = field(init=False)
    sequences: dict[TopicPartition, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.introduce()

    def introduce(self) -> None:
        """A new identity, or a new epoch of the old one; sequences begin again."""
        self.identity = self.cluster.introduce(self.transactional_id)
        self.sequences = {}

    def prepare(
        self, partition: TopicPartition, events: Sequence[Event], *, is_transactional: bool | None = None
    ) -> bytes:
        """The next batch for `partition`, numbered but not sent."""
        sequence = self.sequences.get(partition, 0)
        self.sequences[partition] = sequence + len(events)
        return build_batch(
            records=[self._record(number, event) for number, event in enumerate(events)],
            base_timestamp=self.cluster.now,
            codec=self.codec,
            producer_id=self.identity.producer_id,
            producer_epoch=self.identity.producer_epoch,
            base_sequence=sequence,
            is_transactional=(
                self.transactional_id is not None if is_transactional is None else is_transactional
            ),
        )

    def send(self, partition: TopicPartition, events: Sequence[Event]) -> bytes:
        """Sends the next batch and returns it for retries."""
        if self.transactional_id is not None:
            self.cluster.join(self.transactional_id, self.identity, partition)
        batch = self.prepare(partition, events)
        self.cluster.deliver(partition, batch)
        return batch

    def commit(self) -> None:
        self._end(TransactionResult.COMMIT)

    def abort(self) -> None:
        self._end(TransactionResult.ABORT)

    def _end(self, result: TransactionResult) -> None:
        if self.transactional_id is not None:
            self.identity = self.cluster.end(self.transactional_id, self.identity, result)
            self.sequences = {}

    def _record(self, number: int, event: Event) -> Record:
        key, value = event
        return Record(
            offset_delta=number,
            timestamp_delta=number,
            key=None if key is None else key.encode(),
            value=json.dumps(value).encode(),
            headers=(Header(key="sent-by", value=self.name.encode()),),
        )
