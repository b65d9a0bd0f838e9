"""`topic_volumes`: how much a run brought of each topic; what later runs take for usual."""

import pyarrow as pa

from spark_jobs.tables.contract import Column, Contract

TOPIC_VOLUMES = Contract(
    name="topic_volumes",
    meaning="One row per topic, with zeros where a run brought nothing.",
    columns=(
        Column("topic", pa.string(), "the topic"),
        Column("batches", pa.int64(), "batches with a verdict"),
        Column("duplicate", pa.int64(), "retries of batches that were there already"),
        Column("overlap", pa.int64(), "batches that an earlier run or another copy of the log had brought"),
        Column("rejected", pa.int64(), "batches refused"),
        Column("out_of_order", pa.int64(), "batches whose sequence left a gap"),
        Column("corrupt", pa.int64(), "stretches of bytes that are no batch"),
        Column("records", pa.int64(), "rows written to the topic's table"),
    ),
    key=("topic",),
)
