"""Tables of `materialise`: records of topics, published batches, producers, quarantine, file listing."""

from dataclasses import replace
from enum import StrEnum
from typing import Any

import pyarrow as pa

from spark_jobs.tables.admit import BATCHES
from spark_jobs.tables.contract import RUN_DATE, TIMESTAMP, Column, Contract, with_labels

HEADER_TYPE = pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())])
HEADERS_TYPE = pa.list_(pa.field("element", HEADER_TYPE, nullable=False))

RECORD_COLUMNS: tuple[Column, ...] = (
    Column("partition", pa.int32(), "partition of the topic"),
    Column("offset", pa.int64(), "offset in the partition"),
    Column(
        "timestamp",
        TIMESTAMP,
        "the record's timestamp, in whole milliseconds; null for none, or if timestamp_out_of_range has it",
        True,
    ),
    Column(
        "timestamp_type", pa.string(), "CreateTime, LogAppendTime, or NoTimestampType of the oldest format"
    ),
    Column(
        "timestamp_out_of_range",
        pa.int64(),
        "the record's timestamp in ms since 1970 where it is outside the years 1 to 9999; else null",
        True,
    ),
    Column("key", pa.binary(), "the key's bytes; null is not the same as empty", True),
    Column("value", pa.binary(), "the value's bytes; null marks a deleted key in a compacted topic", True),
    Column("headers", HEADERS_TYPE, "headers in order; a key may come more than once"),
    Column("producer_id", pa.int64(), "-1 without a producer id"),
    Column("producer_epoch", pa.int32(), "-1 without a producer id"),
    Column("sequence", pa.int32(), "number of the record in its producer's sequence; -1 for none"),
    Column(
        "transactional_id", pa.string(), "the transaction's producer, where the coordinator names it", True
    ),
    Column("partition_leader_epoch", pa.int32(), "leader epoch of the record's batch; -1 for none"),
    RUN_DATE,
)
RECORD_KEY = ("partition", "offset")


def records_contract(topic: str, name: str, of_values: tuple[Column, ...] = ()) -> Contract:
    """The contract of the table `name` of `topic`; `of_values` are the columns of its declared fields."""
    return Contract(
        name=name,
        meaning=f"Committed records of the topic {topic}, each exactly once.",
        columns=(*RECORD_COLUMNS, *of_values),
        key=RECORD_KEY,
    )


RECORDS = Contract(
    name="records",
    meaning="Committed records of one topic, each exactly once.",
    columns=RECORD_COLUMNS,
    key=RECORD_KEY,
)


_ASCENDING = ("offset", "timestamp", "sequence")
"""Columns whose differences are smaller than a dictionary of them."""
_DISTINCT = ("timestamp_out_of_range", "key", "value")
"""Columns for which a dictionary would only be tried and given up."""
_NESTED = "headers.list.element.key"
PAGE_ROWS = 100_000
"""Rows of a page at most: a page costs as much as thousands of small values."""


def as_written(schema: pa.Schema) -> pa.Schema:
    """The schema of a topic's table as its writer takes it."""
    return with_labels(schema, ["timestamp_type"])


def record_options(schema: pa.Schema) -> dict[str, Any]:
    """Options of Arrow's Parquet writer for a topic's table of `schema`."""
    plain = (*_ASCENDING, *_DISTINCT)
    return {
        "compression_level": 1,
        "write_page_index": True,
        "max_rows_per_page": PAGE_ROWS,
        "use_dictionary": [*(name for name in schema.names if name not in plain), _NESTED],
        "column_encoding": dict.fromkeys(_ASCENDING, "DELTA_BINARY_PACKED"),
    }


JUDGED_BATCHES = replace(
    BATCHES,
    columns=(
        *BATCHES.columns,
        Column(
            "path", pa.string(), "object that holds it; null for a marker from the coordinator's log", True
        ),
        Column("outcome", pa.string(), "outcome of its transaction; null outside of any", True),
    ),
)


PRODUCERS = Contract(
    name="producers",
    meaning="The producers of every partition with new batches, after the run.",
    columns=(
        Column("topic", pa.string(), "the topic"),
        Column("partition", pa.int32(), "the partition"),
        Column("producer_id", pa.int64(), "the producer"),
        Column("producer_epoch", pa.int32(), "its newest epoch on the partition"),
        Column("last_sequence", pa.int32(), "sequence of its last record; null before its first batch", True),
        Column("last_offset", pa.int64(), "offset of its last record; null before its first batch", True),
        Column("last_timestamp", pa.int64(), "timestamp of its last batch or marker", is_time=True),
        Column("coordinator_epoch", pa.int32(), "epoch of the coordinator of its last marker; -1 for none"),
        Column("txn_first_offset", pa.int64(), "where its open transaction begins; null for none", True),
    ),
    key=("topic", "partition", "producer_id"),
)


class QuarantineKind(StrEnum):
    """Why a batch or record is in quarantine."""

    REJECTED = "rejected"
    CORRUPT = "corrupt"
    HELD = "held"
    UNFIT = "unfit"


QUARANTINE = Contract(
    name="quarantine",
    meaning="Batches that were refused, unreadable or held back, and values that do not fit their schema.",
    columns=(
        Column("topic", pa.string(), "topic of the batch"),
        Column("partition", pa.int32(), "partition of the batch"),
        Column("source", pa.string(), "name of the source that the batch came from"),
        Column("path", pa.string(), "path of its object below the source's root"),
        Column("position", pa.int64(), "byte at which it starts in its object"),
        Column("size", pa.int64(), "bytes of the batch, or of the stretch that is no batch"),
        Column("kind", pa.string(), "rejected, corrupt, held (until its transaction is decided) or unfit"),
        Column("verdict", pa.string(), "what became of the batch"),
        Column("kafka_error", pa.string(), "name of the error that a broker answers; NONE if it would not"),
        Column("reason", pa.string(), "what is wrong, as a sentence", True),
        Column("offset", pa.int64(), "first offset of the batch, or offset of the unfit record", True),
        Column("producer_id", pa.int64(), "-1 without a producer id"),
        Column("producer_epoch", pa.int32(), "-1 without a producer id"),
        Column("base_sequence", pa.int32(), "sequence of the first record; -1 for none"),
        Column("record_count", pa.int32(), "records that the header claims"),
        Column(
            "bytes", pa.binary(), "the batch, or the unfit value; null where it is beyond the limit", True
        ),
    ),
    key=("topic", "partition", "source", "path", "position", "offset"),
)


UNREADABLE = Contract(
    name="unreadable",
    file="unreadable/{plan}.parquet",
    meaning="Batches accepted by their headers, of which some or all records are not published.",
    columns=(
        Column("topic", pa.string(), "topic of the batch"),
        Column("partition", pa.int32(), "partition of the batch"),
        Column("held", pa.string(), "file of inherited rows that held the batch; empty for this run's own"),
        Column("object_order", pa.int32(), "its object within the run's manifest, or within that file"),
        Column("position", pa.int64(), "byte at which the batch starts in its object"),
        Column("offset", pa.int64(), "first offset of the batch"),
        Column("kind", pa.string(), "corrupt: none of its records can be decoded; unfit: some do not fit"),
        Column("records", pa.int64(), "records that are not published because of it"),
        Column("reason", pa.string(), "what is wrong, and at which byte"),
    ),
    key=("topic", "partition", "held", "object_order", "position"),
)


RECORDS_FOLDER, REPLAYED_FOLDER = "records/", "replayed/"
"""Folders for files of topics' tables: the run's own records, and replayed ones."""

TABLE_FILES = Contract(
    name="table_files",
    file="files.parquet",
    meaning="Every file that is to become part of a published table.",
    columns=(
        Column("namespace", pa.string(), "namespace of the table"),
        Column("table", pa.string(), "name of the table; of a topic's, which `publish` names, its folder"),
        Column(
            "topic", pa.string(), "topic whose records the table holds; null for Onceover's own tables", True
        ),
        Column("file", pa.string(), "path below the step's folder; null if the table has no new rows", True),
        Column("rows", pa.int64(), "rows in the file"),
        Column("bytes", pa.int64(), "size of the file"),
    ),
    key=("namespace", "table", "file"),
)
