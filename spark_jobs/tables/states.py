"""`states`: which state file speaks for each partition, in the steps that hand state on."""

import pyarrow as pa

from spark_jobs.tables.contract import Column, Contract

STATES = Contract(
    name="states",
    meaning="The state of every partition ever seen; one without news keeps its digest.",
    columns=(
        Column("topic", pa.string(), "topic of the state"),
        Column("partition", pa.int32(), "partition of the state"),
        Column("state", pa.string(), "SHA-256 of the state file"),
    ),
    key=("topic", "partition"),
)
