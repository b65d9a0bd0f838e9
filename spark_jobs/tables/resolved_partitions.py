"""`resolved_partitions`: how far each partition is decided, and which offsets the run publishes."""

import pyarrow as pa

from spark_jobs.tables.contract import Column, Contract

RESOLVED_PARTITIONS = Contract(
    name="resolved_partitions",
    meaning="Every partition ever seen. The run publishes committed records from first to before end offset.",
    columns=(
        Column("topic", pa.string(), "the topic"),
        Column("partition", pa.int32(), "the partition"),
        Column("first_offset", pa.int64(), "first offset that the run publishes; may lie inside a batch"),
        Column("end_offset", pa.int64(), "offset after the last one that the run publishes"),
        Column("batches", pa.string(), "file with the night's batches below the folder of admit", True),
        Column("outcomes", pa.string(), "file of the table `outcomes` below the folder of resolve", True),
        Column("held", pa.list_(pa.string()), "SHA-256 of files with batches that earlier nights held back"),
        Column("late", pa.list_(pa.int64()), "transactions below the first offset to publish all the same"),
        Column("log_start_offset", pa.int64(), "first offset that the log still promises"),
        Column("log_end_offset", pa.int64(), "offset after the last batch"),
        Column("first_unstable_offset", pa.int64(), "start of the oldest transaction without a marker", True),
        Column("last_stable_offset", pa.int64(), "as a broker says if everything is replicated"),
        Column(
            "high_watermark", pa.int64(), "as checkpointed by the broker; null without a checkpoint", True
        ),
        Column("replicated_stable_offset", pa.int64(), "last stable offset under that high watermark", True),
        Column(
            "decided_offset", pa.int64(), "start of the oldest undecided transaction that others wait for"
        ),
        Column("lag", pa.int64(), "offsets between the last stable offset and the log's end"),
        Column("undecided", pa.int64(), "transactions that nobody has decided"),
        Column("held_batches", pa.int64(), "batches left for a later night"),
        Column("unsettled", pa.int64(), "transactions that something is still to come of"),
        Column("marked_until", pa.int64(), "time of the newest marker, ms since 1970", True),
        Column("marked_offset", pa.int64(), "offset of the newest marker", True),
        Column("has_markers", pa.bool_(), "false for captures of producers alone, without a coordinator"),
        Column("waiting", pa.string(), "SHA-256 of the file that says what waits"),
    ),
    key=("topic", "partition"),
)
