"""`planned_segments`: which accepted batches become which segment of a captured partition's log."""

import pyarrow as pa

from spark_jobs.tables.contract import Column, Contract

SEGMENTS = "segments.parquet"
"""The table's file in the folder of `admit`."""

PLANNED_SEGMENTS = Contract(
    name="planned_segments",
    meaning="The segments that a night adds to accepted logs; `materialise` writes them.",
    columns=(
        Column("topic", pa.string(), "the topic"),
        Column("partition", pa.int32(), "the partition"),
        Column("base_offset", pa.int64(), "offset of its first batch, and its name"),
        Column("leader_epoch", pa.int32(), "the epoch that its batches are stamped with"),
        Column("size", pa.int64(), "bytes"),
        Column(
            "digest", pa.string(), "SHA-256 over offsets, sizes and checksums of its batches, and the epoch"
        ),
        Column("first_row", pa.int64(), "its first batch among the partition's verdicts"),
        Column("stop_row", pa.int64(), "the row after its last one; refused batches may lie between"),
    ),
    key=("topic", "partition", "base_offset"),
)
