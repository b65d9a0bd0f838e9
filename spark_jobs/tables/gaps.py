"""`gaps`: offsets that no copy of a broker's log holds."""

import pyarrow as pa

from spark_jobs.tables.contract import Column, Contract

GAPS = Contract(
    name="gaps",
    meaning="Ranges of missing offsets; compacted topics have holes by design and are left out.",
    columns=(
        Column("topic", pa.string(), "topic of the partition"),
        Column("partition", pa.int32(), "the partition"),
        Column("first_offset", pa.int64(), "first offset that is missing"),
        Column("last_offset", pa.int64(), "last offset that is missing"),
        Column("object_order", pa.int32(), "object of the batch after the gap"),
        Column("position", pa.int64(), "byte at which that batch starts"),
    ),
    key=("topic", "partition", "first_offset"),
)
