"""Tables of `index`: one row per batch of the staged objects, from its 61-byte header (facts §1.3).

For captures of compacted topics it also counts records without a key (facts §2.11).
"""

from typing import Any

import pyarrow as pa

from spark_jobs.tables.contract import Column, Contract

HEADER_COLUMNS: tuple[Column, ...] = (
    Column("object_order", pa.int32(), "arrival order of the staged object within the run's manifest"),
    Column("position", pa.int64(), "byte at which the batch starts in its object"),
    Column("size", pa.int64(), "bytes of the batch, or of the stretch that could not be read"),
    Column("base_offset", pa.int64(), "first offset as written in the header; 0 from a client"),
    Column("partition_leader_epoch", pa.int32(), "leader epoch as written in the header"),
    Column("magic", pa.int8(), "format version; 2 is the only one with producers"),
    Column("crc", pa.uint32(), "checksum as written in the header"),
    Column("attributes", pa.int16(), "codec, timestamp type, transactional, control and delete-horizon bits"),
    Column("last_offset_delta", pa.int32(), "last offset and last sequence minus the first"),
    Column("base_timestamp", pa.int64(), "timestamp that record deltas count from", is_time=True),
    Column("max_timestamp", pa.int64(), "largest record timestamp, or the log append time", is_time=True),
    Column("producer_id", pa.int64(), "-1 without a producer id"),
    Column("producer_epoch", pa.int16(), "-1 without a producer id"),
    Column("base_sequence", pa.int32(), "sequence of the first record; -1 for none"),
    Column("record_count", pa.int32(), "records present in the batch"),
    Column(
        "control_type",
        pa.int16(),
        "0 abort, 1 commit, others as numbered, -1 unknown, -3 unreadable; null for data",
        True,
    ),
    Column(
        "coordinator_epoch", pa.int32(), "epoch of the coordinator that wrote the marker; null for data", True
    ),
    Column("problem", pa.string(), "why the bytes could not be read as a batch; null when they could", True),
)

ASCENDING_COLUMNS = ("position", "base_offset", "base_timestamp", "max_timestamp")
PARQUET_OPTIONS: dict[str, Any] = {
    "compression": "lz4",
    "use_dictionary": False,
    "column_encoding": dict.fromkeys(ASCENDING_COLUMNS, "DELTA_BINARY_PACKED"),
    "write_statistics": False,
    "store_schema": False,
}
"""Writer options of files with header columns: delta encoding for ascending values, plain for the others.

These files are written once and read once or twice, so time matters more than size: they take a quarter of
the time of the writer's defaults, half of that of dictionaries with zstd, and a tenth more bytes.
"""

INDEX = Contract(
    name="index",
    file="{partition}/{copy}/{object_order:09d}-{start:019d}-{last_object:09d}-{stop:019d}{boundary}.parquet",
    meaning="Every batch of the staged objects, and every stretch of bytes that is none.",
    columns=(
        *HEADER_COLUMNS,
        Column(
            "records_without_key",
            pa.int32(),
            "records without a key; counted in captures of compacted topics, 0 elsewhere",
        ),
    ),
    key=("object_order", "position"),
)


INDEX_FILES = Contract(
    name="index_files",
    file="files.parquet",
    meaning="Every file of the run's index; those of one copy of a partition follow in arrival order.",
    columns=(
        Column("topic", pa.string(), "topic of the batches"),
        Column("partition", pa.int32(), "partition of the batches"),
        Column("copy", pa.int32(), "which copy of the partition's log: 0 for captures, else one per replica"),
        Column("source", pa.string(), "name of the copy's source; the first one where captures are joined"),
        Column("directory", pa.string(), "directory of the copy below its source; empty for captures"),
        Column("file", pa.string(), "path below the folder of the step index"),
        Column("object_order", pa.int32(), "the first object in the file"),
        Column("position", pa.int64(), "first byte of that object that the file covers"),
        Column("rows", pa.int64(), "rows in the file"),
        Column("bytes", pa.int64(), "bytes of the staged objects that the rows cover"),
        Column("problems", pa.int64(), "rows that are no batch"),
    ),
    key=("file",),
)
