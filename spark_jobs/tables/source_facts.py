"""`source_facts`: what a run found in each of its sources; the expectations judge these numbers."""

import pyarrow as pa

from spark_jobs.tables.contract import Column, Contract

SOURCE_FACTS = Contract(
    name="source_facts",
    meaning="One row per source of the configuration.",
    columns=(
        Column("source", pa.string(), "name of the source"),
        Column("objects", pa.int64(), "objects of the source in the run's manifest"),
        Column("new_objects", pa.int64(), "those of them that no earlier run has read with the same bytes"),
        Column("is_empty", pa.int64(), "1 if the source has no object, though it should have some"),
        Column("is_unrecognised", pa.int64(), "1 if the source has objects, but none of a partition"),
        Column("is_stale", pa.int64(), "1 if the source brings nothing new"),
        Column("vanished_partitions", pa.int64(), "partitions that the copy of the last run held"),
        Column("remark", pa.string(), "what was found and what is expected; empty if all is well"),
    ),
    key=("source",),
)
