"""Hanging transactions: what is reported, and what an operator is told (facts §3.9, §9 rows 168-169)."""

import pytest

from spark_jobs.protocol.hanging import HangingTransaction, find_hanging, hanging_transaction
from spark_jobs.protocol.partition_transactions import PartitionTransaction
from spark_jobs.protocol.topic_partition import TopicPartition
from tests.protocol.coordinator_values import NOW, ORDERS_0, ORDERS_1

MINUTE = 60_000


def open_part(age_ms: int, *, first_offset: int = 20) -> PartitionTransaction:
    return PartitionTransaction(
        topic_partition=ORDERS_0,
        producer_id=4000,
        producer_epoch=4,
        first_offset=first_offset,
        last_offset=25,
        batch_count=2,
        first_timestamp=NOW - age_ms - 5,
        last_timestamp=NOW - age_ms,
    )


@pytest.mark.parametrize(
    ("described", "is_reported"),
    [
        pytest.param({}, True, id="row-168 no transactional id"),
        pytest.param({4000: None}, True, id="row-168 no description"),
        pytest.param({4000: frozenset({ORDERS_1})}, True, id="row-168 other partitions"),
        pytest.param({4000: frozenset({ORDERS_0})}, False, id="row-169 the partition is described"),
    ],
)
def test_an_old_open_transaction_is_hanging_unless_the_coordinator_has_its_partition(
    described: dict[int, frozenset[TopicPartition] | None], is_reported: bool
) -> None:
    part = open_part(16 * MINUTE)
    assert find_hanging([part], described, now=NOW) == ((part,) if is_reported else ())


def test_a_young_transaction_is_not_reported() -> None:
    assert find_hanging([open_part(15 * MINUTE)], {}, now=NOW) == ()


def hanging(part: PartitionTransaction, last_stable_offset: int) -> HangingTransaction:
    return hanging_transaction(part, last_stable_offset=last_stable_offset, high_watermark=100, now=NOW)


def test_the_operator_is_told_age_impact_and_command() -> None:
    told = hanging(open_part(16 * MINUTE), last_stable_offset=20)
    assert (told.age_ms, told.held_back, told.is_late) == (16 * MINUTE, 80, True)
    assert told.abort_command("broker:9092") == (
        "kafka-transactions.sh --bootstrap-server broker:9092 abort"
        " --topic orders --partition 0 --start-offset 20"
    )


def test_a_transaction_behind_an_older_one_holds_nothing_back_by_itself() -> None:
    assert hanging(open_part(0), last_stable_offset=10).held_back == 0


def test_a_timestamp_of_the_future_is_no_negative_age() -> None:
    assert hanging(open_part(-5), last_stable_offset=20).age_ms == 0
