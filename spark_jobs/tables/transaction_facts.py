"""`transaction_facts`: what the audit counted among the transactions."""

import pyarrow as pa

from spark_jobs.tables.contract import Column, Contract

TRANSACTION_FACTS = Contract(
    name="transaction_facts",
    meaning="One row per file of the table `transactions`, which is divided by producer id.",
    columns=(
        Column("file", pa.string(), "path below the folder of the step resolve"),
        Column("transactions", pa.int64(), "transactions in the file"),
        Column("batches", pa.int64(), "batches of the transactions"),
        Column("undecided_batches", pa.int64(), "those whose outcome the sources do not tell"),
        Column("torn_transactions", pa.int64(), "those that are published on some of their partitions only"),
        Column("shared_producer_ids", pa.int64(), "producer ids that several transactional ids claim"),
        Column("examples", pa.string(), "some of both; empty without any"),
    ),
    key=("file",),
)
