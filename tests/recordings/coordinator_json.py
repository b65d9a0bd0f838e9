"""Values of the coordinators' logs with the names and in the form of Kafka's generated JSON converters."""

from base64 import urlsafe_b64encode
from typing import Any

from spark_jobs.kafka.formats import consumer_offsets
from spark_jobs.kafka.formats.consumer_offsets import OffsetCommitKey, OffsetCommitValue
from spark_jobs.kafka.formats.transaction_state import TransactionLogValue


def transaction_value_json(value: TransactionLogValue) -> dict[str, Any]:
    """A `TransactionLogValue`; tagged fields are there unless they have their default."""
    topics = value.transaction_partitions
    row: dict[str, Any] = {
        "producerId": value.producer_id,
        "producerEpoch": value.producer_epoch,
        "transactionTimeoutMs": value.transaction_timeout_ms,
        "transactionStatus": int(value.transaction_status),
        "transactionPartitions": None
        if topics is None
        else [{"topic": topic.topic, "partitionIds": list(topic.partition_ids)} for topic in topics],
        "transactionLastUpdateTimestampMs": value.transaction_last_update_timestamp_ms,
        "transactionStartTimestampMs": value.transaction_start_timestamp_ms,
    }
    tagged = {
        "previousProducerId": (value.previous_producer_id, -1),
        "nextProducerId": (value.next_producer_id, -1),
        "clientTransactionVersion": (value.client_transaction_version, 0),
        "nextProducerEpoch": (value.next_producer_epoch, -1),
    }
    return row | {name: field for name, (field, default) in tagged.items() if field != default}


def offset_key_json(key: OffsetCommitKey) -> dict[str, Any]:
    """An `OffsetCommitKey`."""
    return {"group": key.group, "topic": key.topic, "partition": key.partition}


def offset_value_json(value: OffsetCommitValue, version: int) -> dict[str, Any]:
    """An `OffsetCommitValue` with the fields that `version` has."""
    row: dict[str, Any] = {"offset": value.offset}
    if version >= consumer_offsets.FIRST_VERSION_WITH_LEADER_EPOCH:
        row["leaderEpoch"] = value.leader_epoch
    row |= {"metadata": value.metadata, "commitTimestamp": value.commit_timestamp}
    if version == consumer_offsets.VERSION_WITH_EXPIRE_TIMESTAMP:
        row["expireTimestamp"] = value.expire_timestamp
    if value.topic_id is not None:
        row["topicId"] = urlsafe_b64encode(value.topic_id).decode().rstrip("=")
    return row
