"""Numbers of runs: a good one, and ways to spoil it."""

from typing import Any

import pyarrow as pa

from expectations.gate import Facts
from spark_jobs.tables.audit import (
    ANSWER_FACTS,
    ID_FACTS,
    PARTITION_FACTS,
    SOURCE_FACTS,
    TOPIC_VOLUMES,
    TRANSACTION_FACTS,
)
from spark_jobs.tables.contract import Contract

GOOD_PARTITION: dict[str, Any] = {
    **{column.name: 0 for column in PARTITION_FACTS.columns},
    "topic": "orders",
    "batches_in": 10,
    "verdicts": 10,
    "accepted": 8,
    "duplicate": 2,
    "committed_records": 80,
    "rows": 80,
    "keys_sampled": 50,
    "last_stable_before": 100,
    "last_stable_offset": 190,
}
GOOD_SOURCE: dict[str, Any] = {
    **{column.name: 0 for column in SOURCE_FACTS.columns},
    "source": "broker",
    "objects": 12,
    "new_objects": 3,
    "remark": "",
}
GOOD_TRANSACTIONS = {
    "file": "transactions/00000.parquet",
    "transactions": 5,
    "batches": 50,
    "undecided_batches": 0,
    "torn_transactions": 0,
    "shared_producer_ids": 0,
    "examples": "",
}
GOOD_ANSWERS = {
    "topic": "orders",
    "partition": 0,
    "answers": 9,
    "unanswered": 1,
    "differing": 0,
    "remark": "",
}
GOOD_IDS = {"topic": "orders", "records": 80, "without_id": 40, "rows": 80, "duplicates": 0}
GOOD_VOLUMES = {
    "topic": "orders",
    "batches": 1000,
    "duplicate": 20,
    "overlap": 0,
    "rejected": 0,
    "out_of_order": 0,
    "corrupt": 0,
    "records": 50_000,
}


def table(contract: Contract, *rows: dict[str, Any]) -> pa.Table:
    return contract.cast(pa.Table.from_pylist(list(rows), schema=contract.schema))


def volumes(**changes: Any) -> pa.Table:
    return table(TOPIC_VOLUMES, GOOD_VOLUMES | changes)


def run(
    *,
    source: dict[str, Any] | None = None,
    partition: dict[str, Any] | None = None,
    transactions: dict[str, Any] | None = None,
    current: dict[str, Any] | None = None,
    answers: dict[str, Any] | None = None,
    ids: dict[str, Any] | None = None,
    runs_before: int = 28,
) -> Facts:
    """A good run of two sources and two partitions, the second of which is changed by the arguments."""
    return Facts(
        sources=table(SOURCE_FACTS, GOOD_SOURCE, GOOD_SOURCE | {"source": "gateway"} | (source or {})),
        partitions=table(
            PARTITION_FACTS, GOOD_PARTITION, GOOD_PARTITION | {"partition": 1} | (partition or {})
        ),
        transactions=table(TRANSACTION_FACTS, GOOD_TRANSACTIONS | (transactions or {})),
        volumes=volumes(**(current or {})),
        ids=table(ID_FACTS, GOOD_IDS | {"partition": 0}, GOOD_IDS | {"partition": 1} | (ids or {})),
        history=tuple(volumes(records=50_000 + number) for number in range(runs_before)),
        answers=table(ANSWER_FACTS, GOOD_ANSWERS | (answers or {})),
    )
