"""`partition_transactions`: transactions as each partition saw them, before anybody asks the coordinator."""

import pyarrow as pa

from spark_jobs.tables.contract import Column, Contract

PARTITION_TRANSACTIONS = Contract(
    name="partition_transactions",
    meaning="Every transaction that a partition closed tonight or has open at the night's end.",
    columns=(
        Column("topic", pa.string(), "topic of the partition"),
        Column("partition", pa.int32(), "the partition"),
        Column("producer_id", pa.int64(), "its producer"),
        Column("producer_epoch", pa.int16(), "newest epoch of its data; the marker's if it has none"),
        Column("first_epoch", pa.int16(), "epoch of its first batch; the marker's if it has none"),
        Column("first_offset", pa.int64(), "first offset of its data; the marker's if it has none"),
        Column("last_offset", pa.int64(), "last offset of its data; the marker's if it has none"),
        Column("batches", pa.int64(), "data batches; 0 for a marker that closed nothing"),
        Column("records", pa.int64(), "records in them"),
        Column("first_timestamp", pa.int64(), "smallest max timestamp of its batches, ms since 1970"),
        Column("last_timestamp", pa.int64(), "largest max timestamp of its batches, ms since 1970"),
        Column("began_before", pa.bool_(), "whether an earlier night saw its first batch"),
        Column("marker_type", pa.int8(), "1 commit, 0 abort; null while no marker has closed it", True),
        Column("marker_offset", pa.int64(), "offset of the marker", True),
        Column("marker_epoch", pa.int16(), "producer epoch of the marker", True),
        Column("coordinator_epoch", pa.int32(), "epoch of the coordinator that wrote the marker", True),
        Column("marker_timestamp", pa.int64(), "when the marker was written, ms since 1970", True),
        Column("gap_first_offset", pa.int64(), "first missing offset between its first batch and end", True),
        Column("gap_last_offset", pa.int64(), "last missing offset there; a marker may be among them", True),
    ),
    key=("topic", "partition", "producer_id", "first_offset", "marker_offset"),
)
