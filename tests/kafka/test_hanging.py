"""Hanging transactions: detection, and instructions for an operator (facts §3.9, §9 rows 168-169)."""

import pytest

from spark_jobs.kafka.topic_partition import TopicPartition
from spark_jobs.kafka.transactions.hanging import HangingTransaction, find_hanging, hanging_transaction
from spark_jobs.kafka.transactions.partition_transactions import PartitionTransaction
from tests.kafka.coordinator_values import NOW, ORDERS_0, ORDERS_1

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
    return hanging_transaction(part, last_stable_offset=last_stable_offset, high_watermark=100)


def test_the_operator_sees_what_it_holds_back() -> None:
    assert hanging(open_part(16 * MINUTE), last_stable_offset=20).held_back == 80


def test_the_command_comes_with_the_check_to_run_first_and_its_risk_in_one_sentence() -> None:
    advice = hanging(open_part(16 * MINUTE), last_stable_offset=20).advice(None, "broker:9092")
    tool = "kafka-transactions.sh --bootstrap-server broker:9092"
    assert advice == (
        f"check first: `{tool} describe-producers --topic orders --partition 0` must still show producer "
        "4000, epoch 4, with CurrentTransactionStartOffset 20; only then run "
        f"`{tool} abort --topic orders --partition 0 --start-offset 20`, which discards its records for "
        "good, even if a live producer commits them afterwards"
    )


def test_a_known_transactional_id_is_checked_too_and_quoted_for_the_shell() -> None:
    advice = hanging(open_part(0), last_stable_offset=20).advice("it's; rm -rf")
    assert """ describe --transactional-id 'it'"'"'s; rm -rf'` must not show it as Ongoing with """ in advice
    assert advice.index("describe-producers") < advice.index(" describe ") < advice.index(" abort ")


def test_a_transaction_behind_an_older_one_holds_nothing_back_by_itself() -> None:
    assert hanging(open_part(0), last_stable_offset=10).held_back == 0
