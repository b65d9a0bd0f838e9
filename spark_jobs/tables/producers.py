"""`producers`: what each partition knows of its producers after the night."""

import pyarrow as pa

from spark_jobs.tables.contract import Column, Contract

PRODUCERS = Contract(
    name="producers",
    meaning="The producers of every partition that had news, as they stand after the night.",
    columns=(
        Column("topic", pa.string(), "the topic"),
        Column("partition", pa.int32(), "the partition"),
        Column("producer_id", pa.int64(), "the producer"),
        Column("producer_epoch", pa.int32(), "its newest epoch on the partition"),
        Column("last_sequence", pa.int32(), "sequence of its last record; null before its first batch", True),
        Column("last_offset", pa.int64(), "offset of its last record; null before its first batch", True),
        Column("last_timestamp", pa.int64(), "timestamp of its last batch or marker", is_time=True),
        Column("coordinator_epoch", pa.int32(), "epoch of the coordinator of its last marker; -1 for none"),
        Column("txn_first_offset", pa.int64(), "where its open transaction begins; null for none", True),
    ),
    key=("topic", "partition", "producer_id"),
)
