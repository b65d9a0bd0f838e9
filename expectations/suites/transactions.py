"""`transactions`: each is published whole or not at all, and each producer id has one owner."""

import pyarrow as pa
import pyarrow.compute as pc
from great_expectations.expectations import Expectation

from expectations.facts import Facts
from expectations.own.producer_ids_have_one_owner import ProducerIdsHaveOneOwner
from expectations.own.transactions_are_whole import TransactionsAreWhole
from expectations.suite import Suite
from spark_jobs.config.audit import AuditSettings


def frame(facts: Facts, _: AuditSettings) -> pa.Table:
    """A row per file of the table, which is divided by producer id, and one per partition that cuts some."""
    torn = facts.partitions.filter(pc.greater(facts.partitions.column("torn_transactions"), pa.scalar(0)))
    rows = [
        {
            "file": f"{row['topic']}-{row['partition']}",
            "transactions": row["torn_transactions"],
            "torn_transactions": row["torn_transactions"],
            "shared_producer_ids": 0,
            "examples": "",
        }
        for row in torn.to_pylist()
    ]
    schema = facts.transactions.schema
    return pa.concat_tables([facts.transactions, pa.Table.from_pylist(rows, schema=schema)])


def expectations(_: AuditSettings) -> tuple[Expectation, ...]:
    return (TransactionsAreWhole(), ProducerIdsHaveOneOwner())


TRANSACTIONS = Suite(
    name="transactions", about=("file",), frame=frame, expectations=expectations, shown=("examples",)
)
