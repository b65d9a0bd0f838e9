"""The error code for a client's API version: older ones have fewer (facts §0, §3)."""

from spark_jobs.protocol.errors import KafkaError

FIRST_VERSION_WITH_PRODUCER_FENCED = {"init_producer_id": 4, "add_partitions_to_txn": 2, "end_txn": 2}
FIRST_PRODUCE_VERSION_WITH_ABORTABLE = 11


def reply_error(api: str, version: int, error: KafkaError) -> KafkaError:
    """`error` of the coordinator as a client of `version` gets it."""
    if error is KafkaError.PRODUCER_FENCED and version < FIRST_VERSION_WITH_PRODUCER_FENCED[api]:
        return KafkaError.INVALID_PRODUCER_EPOCH
    return error


def produce_error(version: int, error: KafkaError) -> KafkaError:
    """`error` of the coordinator, met while a produce request is verified or joins its transaction."""
    if error is KafkaError.PRODUCER_FENCED:
        return KafkaError.INVALID_PRODUCER_EPOCH
    if error is KafkaError.TRANSACTION_ABORTABLE and version < FIRST_PRODUCE_VERSION_WITH_ABORTABLE:
        return KafkaError.INVALID_TXN_STATE
    return error
