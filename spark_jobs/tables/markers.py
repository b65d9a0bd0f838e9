"""`markers`: markers that a capture lacks and the coordinator's log gives, with their place in the stream."""

import pyarrow as pa

from spark_jobs.tables.contract import Column, Contract

AT_THE_END = 2**31 - 1
"""`before_object_order` of a marker that comes after every batch of the night."""

MARKERS = Contract(
    name="markers",
    meaning="Markers of one partition in the order in which they go into its log.",
    columns=(
        Column("before_object_order", pa.int32(), "object of the batch that comes next in arrival order"),
        Column("before_position", pa.int64(), "byte at which that batch starts"),
        Column("producer_id", pa.int64(), "producer of the transaction"),
        Column("producer_epoch", pa.int16(), "producer epoch of the marker"),
        Column("control_type", pa.int16(), "1 commit, 0 abort"),
        Column("coordinator_epoch", pa.int32(), "epoch of the coordinator"),
        Column("timestamp", pa.int64(), "when the coordinator decided, ms since 1970"),
    ),
    key=("before_object_order", "before_position", "producer_id"),
)

MARKER_FILES = Contract(
    name="marker_files",
    meaning="The files of the table `markers`, one per partition that has any.",
    columns=(
        Column("topic", pa.string(), "topic of the markers"),
        Column("partition", pa.int32(), "partition of the markers"),
        Column("file", pa.string(), "path below the folder of the step rebuild"),
    ),
    key=("topic", "partition"),
)
