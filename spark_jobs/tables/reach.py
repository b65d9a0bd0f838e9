"""`reach`: how far the objects of brokers' logs were read without a problem."""

import pyarrow as pa

from spark_jobs.tables.contract import Column, Contract

REACH_FILE = "reach.parquet"
"""The table's file in the folder of `admit`."""

REACH = Contract(
    name="reach",
    meaning="Where a later run continues to read a segment that has grown, one row per object that was read.",
    columns=(
        Column("object_order", pa.int32(), "the object"),
        Column("position", pa.int64(), "bytes before the first problem that are whole batches"),
        Column("next_offset", pa.int64(), "offset after the last of these batches"),
    ),
    key=("object_order",),
)
