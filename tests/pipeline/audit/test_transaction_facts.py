from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from spark_jobs.kafka.topic_partition import TopicPartition
from spark_jobs.lake.file_store import FileStore
from spark_jobs.lake.parquet_file import put_table
from spark_jobs.pipeline.audit.transaction_facts import PublishedRange, TransactionTask, count_transactions
from spark_jobs.tables.resolve import TRANSACTIONS

RANGES = (
    PublishedRange(partition=TopicPartition("orders", 0), first_offset=10, end_offset=20, late=(3,)),
    PublishedRange(partition=TopicPartition("orders", 1), first_offset=0, end_offset=50),
)


def _transaction(
    places: dict[str, int],
    *,
    producer: int = 7,
    owner: str | None = "shop",
    outcome: str = "committed",
    evidence: tuple[str, ...] = ("marker",),
    batches: int = 1,
) -> dict[str, Any]:
    return {
        "transactional_id": owner,
        "producer_id": producer,
        "producer_epoch": 0,
        "outcome": outcome,
        "evidence": list(evidence),
        "batches": batches,
        "partitions_found": list(places),
        "first_offsets": list(places.values()),
    }


@pytest.fixture
def facts(tmp_path: Path) -> Any:
    lake = FileStore(str(tmp_path))

    def count(*rows: dict[str, Any], ranges: tuple[PublishedRange, ...] = RANGES) -> Any:
        schema = pa.schema([field.with_nullable(True) for field in TRANSACTIONS.schema])
        put_table(lake, "t", "0.parquet", pa.Table.from_pylist(list(rows), schema=schema))
        return count_transactions(
            TransactionTask(file="0.parquet", key="t/0.parquet", ranges=ranges, lake=lake)
        )

    return count


def test_batches_of_transactions_whose_end_is_in_no_source_are_counted(facts: Any) -> None:
    found = facts(
        _transaction({"orders-0": 10}, batches=1),
        _transaction({"orders-0": 20}, batches=2, outcome="aborted"),
        _transaction({"orders-0": 30}, batches=4, outcome="ongoing", evidence=("coordinator",)),
        _transaction({"orders-0": 40}, batches=8, outcome="hanging", evidence=("no coordinator entry",)),
        _transaction({"orders-0": 50}, batches=16, outcome="ambiguous", evidence=("several fit",)),
        _transaction({"orders-0": 60}, batches=32, outcome="conflict", evidence=("contradiction", "marker")),
        _transaction({"orders-0": 70}, batches=64, outcome="ongoing", evidence=("x", "no coordinator log")),
        _transaction({"orders-0": 80}, batches=128, outcome="ongoing", evidence=()),
    )
    assert (found["batches"], found["undecided_batches"]) == (255, 16 + 32 + 64)


def test_a_transaction_is_whole_if_all_or_none_of_its_partitions_are_published(facts: Any) -> None:
    found = facts(
        _transaction({"orders-0": 10, "orders-1": 0}),
        _transaction({"orders-0": 3, "orders-1": 49}),
        _transaction({"orders-0": 20, "orders-1": 50}),
        _transaction({"orders-0": 9}),
    )
    assert (found["transactions"], found["torn_transactions"], found["examples"]) == (4, 0, "")


@pytest.mark.parametrize("offset", [9, 20])
def test_it_is_torn_if_only_some_are(facts: Any, offset: int) -> None:
    found = facts(_transaction({"orders-0": offset, "orders-1": 5}))
    assert found["torn_transactions"] == 1
    assert found["examples"] == "transaction of shop by producer 7 in epoch 0 is torn"


def test_also_if_a_partition_of_it_is_not_published_at_all(facts: Any) -> None:
    assert facts(_transaction({"other-0": 5, "orders-1": 5}))["torn_transactions"] == 1


def test_committed_offsets_have_no_table_that_could_miss_them(facts: Any) -> None:
    assert facts(_transaction({"__consumer_offsets-3": 5, "orders-1": 5}))["torn_transactions"] == 0


def test_what_did_not_commit_is_not_published_anywhere(facts: Any) -> None:
    assert facts(_transaction({"orders-0": 9, "orders-1": 5}, outcome="aborted"))["torn_transactions"] == 0


def test_nobody_asks_where_partitions_are_published_each_alone(facts: Any) -> None:
    assert facts(_transaction({"orders-0": 9, "orders-1": 5}), ranges=())["torn_transactions"] == 0


def test_a_producer_id_with_two_owners_is_found(facts: Any) -> None:
    found = facts(
        _transaction({"orders-1": 5}),
        _transaction({"orders-1": 6}),
        _transaction({"orders-1": 7}, owner=None),
        _transaction({"orders-1": 8}, producer=8, owner="bank"),
    )
    assert found["shared_producer_ids"] == 0
    found = facts(_transaction({"orders-1": 5}), _transaction({"orders-1": 6}, owner="bank"))
    assert found["shared_producer_ids"] == 1
    assert found["examples"] == "producer 7 has several owners"
