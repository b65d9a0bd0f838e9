"""`topic_partitioners`: what has placed the keys of each topic, as far as this run and earlier ones show."""

import pyarrow as pa

from spark_jobs.tables.contract import Column, Contract

ALL_PRODUCERS = -1

TOPIC_PARTITIONERS = Contract(
    name="topic_partitioners",
    meaning="One row per topic whose keys tell a partitioner, or per producer where producers differ.",
    columns=(
        Column("topic", pa.string(), "the topic"),
        Column("producer_id", pa.int64(), "the producer; -1 for all producers of the topic"),
        Column("partitioner", pa.string(), "murmur2, consistent, fnv1a, or none if none of them fits"),
        Column("partition_count", pa.int64(), "partitions among which it chooses"),
    ),
    key=("topic", "producer_id"),
)
