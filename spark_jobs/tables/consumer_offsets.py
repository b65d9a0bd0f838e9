"""`consumer_offsets`: the offsets that consumer groups have committed, inside transactions and outside."""

import pyarrow as pa

from spark_jobs.tables.contract import Column, Contract

CONSUMER_OFFSETS = Contract(
    name="consumer_offsets",
    meaning="The committed offset of each group and partition, and those that wait for their transaction.",
    columns=(
        Column("group", pa.string(), "the consumer group"),
        Column("topic", pa.string(), "topic that the group reads"),
        Column("partition", pa.int32(), "partition that the group reads"),
        Column("offset", pa.int64(), "the next offset that the group will read"),
        Column("leader_epoch", pa.int32(), "leader epoch of the record before; -1 if unknown"),
        Column("metadata", pa.string(), "what the consumer noted with it"),
        Column("commit_timestamp", pa.int64(), "when it was committed", is_time=True),
        Column(
            "expire_timestamp", pa.int64(), "when it expires; none by the broker's own rule", is_time=True
        ),
        Column("pending", pa.bool_(), "waits for the end of its transaction, so it does not count yet"),
        Column("producer_id", pa.int64(), "producer of the transaction; -1 outside of any"),
        Column("record_offset", pa.int64(), "offset of the record in __consumer_offsets"),
        Column("offsets_partition", pa.int32(), "partition of __consumer_offsets that holds the record"),
    ),
    key=("group", "topic", "partition", "producer_id"),
)
