"""The table of a topic: each committed record exactly once, as a read_committed consumer sees it."""

import pyarrow as pa

from spark_jobs.tables.contract import TIMESTAMP, Column, Contract
from spark_jobs.tables.published import RUN_DATE

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
    """The table `name` of `topic`; `of_values` are columns that its values are declared to hold."""
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
