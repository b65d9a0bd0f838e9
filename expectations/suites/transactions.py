"""`transactions`: each is published whole or not at all, and each producer id has one owner."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from great_expectations.expectations import Expectation

from expectations.own import at_most
from expectations.suite import Facts, Suite
from spark_jobs.config.audit import AuditSettings, ExpectationName


def frame(facts: Facts, settings: AuditSettings) -> pa.Table:
    """A row per file of the table, which is divided by producer id, and one per partition that cuts some.

    The last row is about all transactions: the share of their batches whose outcome cannot be known, if there
    are enough of them.
    """
    torn = facts.partitions.filter(pc.greater(facts.partitions.column("torn_transactions"), pa.scalar(0)))
    rows = [
        {
            "file": f"{row['topic']}-{row['partition']}",
            "transactions": row["torn_transactions"],
            "batches": 0,
            "undecided_batches": 0,
            "torn_transactions": row["torn_transactions"],
            "shared_producer_ids": 0,
            "examples": "",
        }
        for row in torn.to_pylist()
    ]
    total, undecided = (_sum(facts.transactions, name) for name in ("batches", "undecided_batches"))
    everything = {
        "file": "all transactions",
        "transactions": _sum(facts.transactions, "transactions"),
        "batches": total,
        "undecided_batches": undecided,
        "torn_transactions": 0,
        "shared_producer_ids": 0,
        "examples": f"{undecided:,} of {total:,} batches are of an unknown outcome" if undecided else "",
    }
    schema = facts.transactions.schema
    table = pa.concat_tables([facts.transactions, pa.Table.from_pylist([*rows, everything], schema=schema)])
    share = undecided / total if total >= settings.share_least else None
    shares = [*[None] * (table.num_rows - 1), share]
    return table.append_column("undecided_share", pa.array(shares, pa.float64()))


def _sum(table: pa.Table, name: str) -> int:
    return int(np.asarray(table.column(name)).sum())


def expectations(settings: AuditSettings) -> tuple[Expectation, ...]:
    return (
        at_most(ExpectationName.TRANSACTIONS_ARE_WHOLE, "torn_transactions"),
        at_most(ExpectationName.MOST_TRANSACTIONS_ARE_DECIDED, "undecided_share", settings.undecided_share),
        at_most(ExpectationName.PRODUCER_IDS_HAVE_ONE_OWNER, "shared_producer_ids"),
    )


TRANSACTIONS = Suite(
    name="transactions", about=("file",), frame=frame, expectations=expectations, shown=("examples",)
)
