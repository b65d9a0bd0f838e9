"""`topic_volumes`: how much a night brought of each topic; what later nights take for usual."""

import pyarrow as pa

from spark_jobs.tables.contract import Column, Contract

TOPIC_VOLUMES = Contract(
    name="topic_volumes",
    meaning="One row per topic, with zeros where a night brought nothing.",
    columns=(
        Column("topic", pa.string(), "the topic"),
        Column("batches", pa.int64(), "batches with a verdict"),
        Column("duplicate", pa.int64(), "batches that were there already"),
        Column("out_of_order", pa.int64(), "batches whose sequence left a gap"),
        Column("corrupt", pa.int64(), "stretches of bytes that are no batch"),
        Column("records", pa.int64(), "rows written to the topic's table"),
    ),
    key=("topic",),
)
