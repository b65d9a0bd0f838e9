"""Tables of `admit`: the verdict on every batch, missing offsets, planned segments, counts by partition."""

from enum import StrEnum
from typing import Any

import pyarrow as pa

from spark_jobs.kafka.producers.producer_state import AppendOrigin
from spark_jobs.kafka.producers.verdict import VerdictGroup
from spark_jobs.tables.contract import Column, Contract, one_of, with_labels
from spark_jobs.tables.index import ASCENDING_COLUMNS, HEADER_COLUMNS, PARQUET_OPTIONS

MARKER_OBJECT = -(2**31)
"""`object_order` of a marker that comes from the coordinator's log and is in no object."""

BATCHES = Contract(
    name="batches",
    file="batches/{partition}.parquet",
    meaning=(
        "Every batch of the run, and every inherited parked one, with exactly one verdict; accepted ones "
        "ascend by offset."
    ),
    columns=(
        Column("topic", pa.string(), "topic of the batch"),
        Column("partition", pa.int32(), "partition of the batch"),
        Column("source", pa.string(), "name of the source that the batch came from"),
        Column("copy", pa.int32(), "which copy of the partition's log: 0 for captures, else one per replica"),
        *HEADER_COLUMNS,
        Column("verdict", pa.string(), "what became of the batch"),
        Column("kafka_error", pa.string(), "name of the error that a broker answers; NONE if it would not"),
        Column("offset", pa.int64(), "first offset given to the batch, or a duplicate's original one", True),
        Column(
            "expected_sequence", pa.int32(), "sequence that would have continued the producer's chain", True
        ),
        Column("expected_epoch", pa.int16(), "the producer's epoch as the partition knew it", True),
        Column(
            "txn_first_offset", pa.int64(), "first offset of the transaction that the batch belongs to", True
        ),
        Column("reason", pa.string(), "the verdict's reason; null when the batch was simply accepted", True),
    ),
    key=("topic", "partition", "copy", "object_order", "position"),
)

LABEL_COLUMNS = ("topic", "source", "verdict", "kafka_error")
BATCHES_OPTIONS: dict[str, Any] = {
    **PARQUET_OPTIONS,
    "use_dictionary": list(LABEL_COLUMNS),
    "column_encoding": dict.fromkeys(
        (*ASCENDING_COLUMNS, "offset", "txn_first_offset"), "DELTA_BINARY_PACKED"
    ),
    "write_statistics": ["offset"],
}
"""Writer options of this table: those of `index`, and statistics to find row groups by offset."""

BATCHES_WRITTEN = with_labels(BATCHES.schema, LABEL_COLUMNS)


GROUP_MEANINGS = {
    VerdictGroup.ACCEPTED: "batches taken",
    VerdictGroup.DUPLICATE: "batches that were there already",
    VerdictGroup.REJECTED: "batches refused",
    VerdictGroup.CORRUPT: "stretches of bytes that are not a valid batch",
    VerdictGroup.HELD: "parked batches",
}

KIND_OF = {AppendOrigin.CLIENT: "capture", AppendOrigin.REPLICATION: "broker-log"}
"""The value of the column `kind` by who assigned the partition's offsets: the run, or brokers."""

ADMITTED_PARTITIONS = Contract(
    name="admitted_partitions",
    file="partitions.parquet",
    meaning="One row per partition with objects in this run; `rows` is the sum of the five groups of "
    "verdicts.",
    columns=(
        Column("topic", pa.string(), "the topic"),
        Column("partition", pa.int32(), "the partition"),
        Column("kind", pa.string(), " or ".join(KIND_OF.values())),
        Column("batches", pa.string(), "file with the verdicts, below the folder of the step admit"),
        Column(
            "rows",
            pa.int64(),
            "batches of the run, inherited parked ones, and markers from the coordinator's log",
        ),
        Column("inherited", pa.int64(), "parked batches that were inherited from earlier runs"),
        Column("markers", pa.int64(), "markers that the coordinator's log gave, since the capture has none"),
        *(Column(group.value, pa.int64(), meaning) for group, meaning in GROUP_MEANINGS.items()),
        Column("start_offset", pa.int64(), "log end offset before the run"),
        Column("end_offset", pa.int64(), "log end offset after the run"),
        Column("log_start_offset", pa.int64(), "first offset that the log still promises"),
        Column(
            "first_unstable_offset", pa.int64(), "where the oldest transaction without marker begins", True
        ),
        Column("leader_epoch", pa.int32(), "newest leader epoch"),
        Column("producers", pa.int64(), "producers in the partition's state after the run"),
        Column("gaps", pa.int64(), "ranges of offsets that no copy has, and that nothing explains"),
        Column("cleaned_offset", pa.int64(), "below it a broker's cleaner was, so holes are explained"),
        Column("critical", pa.int64(), "plain batches inside open transactions: no broker loads such a log"),
        Column("transactions", pa.string(), "file with its transactions; null if it had none", True),
        Column("state", pa.string(), "SHA-256 of its state file after the run"),
    ),
    key=("topic", "partition"),
)


PARTITION_TRANSACTIONS = Contract(
    name="partition_transactions",
    file="transactions/{task:05d}.parquet",
    meaning="Every transaction that a partition closed in this run or has open at its end.",
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
        Column("began_before", pa.bool_(), "whether its first batch is in an earlier run"),
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


class GapStatus(StrEnum):
    """The status of a gap in the offsets of a partition."""

    OPEN = "open"
    """The partition is published up to the gap; batches after it are held."""
    FILLED = "filled"
    """A later copy had the offsets: they were taken."""
    PUBLISHED_PAST = "published_past"
    """The partition was published without the offsets, as configured for the topic."""
    DELETED = "deleted"
    """The broker deleted the offsets before any copy had them: by retention or DeleteRecords."""
    LATE = "late"
    """A later copy has offsets that an earlier run had passed: a backfill of its date takes them."""
    TRUNCATED = "truncated"
    """The log ends before the offsets now."""


GAPS = Contract(
    name="gaps",
    file="gaps.parquet",
    meaning=(
        "Ranges of missing offsets: those that are open after the run, and those that changed in it. Holes "
        "that a cleaner explains are none."
    ),
    columns=(
        Column("topic", pa.string(), "topic of the partition"),
        Column("partition", pa.int32(), "the partition"),
        Column("first_offset", pa.int64(), "first offset that is or was missing"),
        Column("last_offset", pa.int64(), "last offset that is or was missing"),
        Column("status", pa.string(), one_of(GapStatus)),
        Column("found_on", pa.date32(), "date of the run that found the gap"),
        Column("filled_on", pa.date32(), "date of the run that took the missing offsets", True),
        Column("held_batches", pa.int64(), "batches held behind an open gap, up to the next one"),
        Column("held_records", pa.int64(), "records that these batches claim"),
        Column("before", pa.string(), "object that ends before the gap; null if none is known", True),
        Column("after", pa.string(), "object that continues after the gap, or that has its offsets", True),
    ),
    key=("topic", "partition", "first_offset", "status", "after"),
)


PLANNED_SEGMENTS = Contract(
    name="planned_segments",
    file="segments.parquet",
    meaning="The segments that a run adds to accepted logs; `materialise` writes them.",
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
        Column("stop_row", pa.int64(), "the row after its last one; rejected batches may be in between"),
    ),
    key=("topic", "partition", "base_offset"),
)


REACH = Contract(
    name="reach",
    file="reach.parquet",
    meaning="Where a later run continues to read a segment that has grown, one row per object that was read.",
    columns=(
        Column("object_order", pa.int32(), "the object"),
        Column("position", pa.int64(), "bytes before the first problem that are whole batches"),
        Column("next_offset", pa.int64(), "offset after the last of these batches"),
    ),
    key=("object_order",),
)
