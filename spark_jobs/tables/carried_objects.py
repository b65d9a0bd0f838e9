"""`carried_objects`: objects of earlier nights in which batches wait."""

import pyarrow as pa

from spark_jobs.tables.contract import Column, Contract

CARRIED_OBJECTS = Contract(
    name="carried_objects",
    meaning="Objects that earlier nights staged and this one needs again, for batches that wait in them.",
    columns=(
        Column("object_order", pa.int32(), "negative, so before every object of the night; by arrival"),
        Column("topic", pa.string(), "topic of the batches"),
        Column("partition", pa.int32(), "partition of the batches"),
        Column("source", pa.string(), "name of the source"),
        Column("path", pa.string(), "path below the source's root"),
        Column("role", pa.string(), "what the object is for"),
        Column("size", pa.int64(), "bytes of the object"),
        Column("sha256", pa.string(), "content of the object"),
        Column("version", pa.string(), "version at the source; empty for a copied object"),
        Column("referenced", pa.bool_(), "whether the bytes lie at the source instead of in the lake"),
    ),
    key=("object_order",),
)
