"""`unreadable`: committed batches of which records are not published: undecodable, or with unfit values."""

import pyarrow as pa

from spark_jobs.tables.contract import Column, Contract

UNREADABLE = Contract(
    name="unreadable",
    meaning="Batches accepted by their headers, of which some or all records are not published.",
    columns=(
        Column("topic", pa.string(), "topic of the batch"),
        Column("partition", pa.int32(), "partition of the batch"),
        Column("held", pa.string(), "file of carried rows that the batch waited in; empty for tonight's"),
        Column("object_order", pa.int32(), "its object within the run's manifest, or within that file"),
        Column("position", pa.int64(), "byte at which the batch starts in its object"),
        Column("offset", pa.int64(), "first offset of the batch"),
        Column("kind", pa.string(), "corrupt: none of its records can be decoded; unfit: some do not fit"),
        Column("records", pa.int64(), "records that are not published because of it"),
        Column("reason", pa.string(), "what is wrong, and at which byte"),
    ),
    key=("topic", "partition", "held", "object_order", "position"),
)
