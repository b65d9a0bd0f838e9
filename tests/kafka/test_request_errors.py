"""Error codes for a client's API version (facts §0, §3)."""

import pytest

from spark_jobs.kafka.errors import KafkaError
from spark_jobs.sample.broker.coordinator import produce_error, reply_error


@pytest.mark.parametrize(
    ("api", "version", "expected"),
    [
        ("end_txn", 1, KafkaError.INVALID_PRODUCER_EPOCH),
        ("end_txn", 2, KafkaError.PRODUCER_FENCED),
        ("add_partitions_to_txn", 1, KafkaError.INVALID_PRODUCER_EPOCH),
        ("init_producer_id", 3, KafkaError.INVALID_PRODUCER_EPOCH),
        ("init_producer_id", 4, KafkaError.PRODUCER_FENCED),
    ],
)
def test_older_clients_are_reported_of_fencing_in_their_words(
    api: str, version: int, expected: KafkaError
) -> None:
    assert reply_error(api, version, KafkaError.PRODUCER_FENCED) is expected


@pytest.mark.parametrize(
    ("version", "error", "expected"),
    [
        (8, KafkaError.TRANSACTION_ABORTABLE, KafkaError.INVALID_TXN_STATE),
        (11, KafkaError.TRANSACTION_ABORTABLE, KafkaError.TRANSACTION_ABORTABLE),
        (12, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH),
        (12, KafkaError.INVALID_PRODUCER_ID_MAPPING, KafkaError.INVALID_PRODUCER_ID_MAPPING),
    ],
)
def test_a_produce_request_is_answered_in_its_own_words(
    version: int, error: KafkaError, expected: KafkaError
) -> None:
    assert produce_error(version, error) is expected
