"""The settings of a recorded broker: recorded, or derived from its log and replies."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from spark_jobs.kafka.formats.record_batch import TimestampType
from spark_jobs.kafka.topic_partition import TopicPartition
from tests.recordings.events import CoordinatorRequest, Event, Meta, Produce
from tests.recordings.log_directory import INTERNAL_TOPICS, TRANSACTION_TOPIC, LogDirectory
from tests.recordings.wire import read_init_producer_id

SEGMENT_BYTES = 1024**3
MAX_MESSAGE_BYTES = 1024**2 + 12
TIMESTAMP_AFTER_MAX_MS = 3_600_000
PRODUCER_ID_EXPIRATION_MS = 86_400_000
EXPIRATION_CHECK_INTERVAL_MS = 600_000
TRANSACTION_MAX_TIMEOUT_MS = 900_000
TRANSACTION_TOPIC_PARTITIONS = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSettings:
    """The topic settings that decide on a batch; Kafka's defaults unless set."""

    timestamp_type: TimestampType = TimestampType.CREATE_TIME
    compacted: bool = False
    max_message_bytes: int = MAX_MESSAGE_BYTES
    segment_bytes: int = SEGMENT_BYTES


GENERATOR_TOPICS: Mapping[str, TopicSettings] = {
    "lat": TopicSettings(timestamp_type=TimestampType.LOG_APPEND_TIME),
    "cmp": TopicSettings(compacted=True),
    "small": TopicSettings(max_message_bytes=500),
}
"""Topics that the recordings' generator creates for one setting each, and names after it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSettings:
    """Partitions with their topic's settings, and the broker's own."""

    topics: Mapping[TopicPartition, TopicSettings]
    transaction_partitions: int
    transaction_max_timeout_ms: int
    producer_id_expiration_ms: int
    expiration_check_interval_ms: int

    @property
    def log_append_topics(self) -> frozenset[str]:
        found = (
            tp.topic for tp, s in self.topics.items() if s.timestamp_type is TimestampType.LOG_APPEND_TIME
        )
        return frozenset(found)


def settings_of(events: Sequence[Event], logs: LogDirectory) -> BrokerSettings:
    """The settings under which `events` were answered."""
    meta = next((event for event in events if isinstance(event, Meta)), None)
    broker = meta.broker if meta else {}
    partitions = _partitions(events, meta, logs)
    by_topic = {topic: _topic_settings(topic, meta, logs) for topic in {tp.topic for tp in partitions}}
    return BrokerSettings(
        topics={tp: by_topic[tp.topic] for tp in sorted(partitions)},
        transaction_partitions=len(logs.of_topic(TRANSACTION_TOPIC)) or TRANSACTION_TOPIC_PARTITIONS,
        transaction_max_timeout_ms=max([TRANSACTION_MAX_TIMEOUT_MS, *_accepted_timeouts(events)]),
        producer_id_expiration_ms=int(broker.get("producer.id.expiration.ms", PRODUCER_ID_EXPIRATION_MS)),
        expiration_check_interval_ms=int(
            broker.get("producer.id.expiration.check.interval.ms", EXPIRATION_CHECK_INTERVAL_MS)
        ),
    )


def _partitions(events: Sequence[Event], meta: Meta | None, logs: LogDirectory) -> set[TopicPartition]:
    """From the log directory; without one, the topics of the meta event, or all that were written to."""
    stored = {tp for tp in logs.partitions if tp.topic not in INTERNAL_TOPICS}
    reported = {
        TopicPartition(topic, partition)
        for topic, setup in (meta.topics if meta else {}).items()
        for partition in range(setup["partitions"])
    }
    parts = chain.from_iterable(event.parts for event in events if isinstance(event, Produce))
    return stored or reported or {part.topic_partition for part in parts}


def _topic_settings(topic: str, meta: Meta | None, logs: LogDirectory) -> TopicSettings:
    settings = GENERATOR_TOPICS.get(topic, TopicSettings())
    if meta is not None and meta.segment_bytes is not None:
        settings = replace(settings, segment_bytes=meta.segment_bytes)
    if meta is not None and topic in meta.topics:
        return replace(settings, timestamp_type=TimestampType(meta.topics[topic]["timestamp_type"]))
    types = {batch.header.timestamp_type for partition in logs.of_topic(topic) for batch in partition.batches}
    return replace(settings, timestamp_type=types.pop()) if len(types) == 1 else settings


def _accepted_timeouts(events: Sequence[Event]) -> list[int]:
    """Transaction timeouts that the broker accepted: its limit, which is not recorded, is at least these."""
    inits = (e for e in events if isinstance(e, CoordinatorRequest) and e.kind == "init_producer_id")
    return [
        read_init_producer_id(event.request).transaction_timeout_ms
        for event in inits
        if event.reply["error_code"] == 0
    ]
