"""The tables of a log: its records, and what headers show without them."""

from dataclasses import replace

import pyarrow as pa

from spark_jobs.tables.contract import TIMESTAMP, Column, Contract, one_of
from spark_jobs.tables.materialise import RECORD_COLUMNS

_TOPIC = Column("topic", pa.string(), "the topic; null if the directory's name does not say", True)
_PARTITION = Column("partition", pa.int32(), "the partition; null if the directory's name does not say", True)
_OF_A_RUN = ("transactional_id", "run_date")

LOG_RECORDS = Contract(
    name="records",
    meaning="The records that a consumer of the chosen isolation level gets.",
    columns=(
        _TOPIC,
        *(
            replace(column, nullable=True) if column.name == "partition" else column
            for column in RECORD_COLUMNS
            if column.name not in _OF_A_RUN
        ),
    ),
    key=("topic", "partition", "offset"),
)

OUTCOMES = ("committed", "aborted", "open")

LOG_BATCHES = Contract(
    name="batches",
    meaning="Every batch that a broker serves, as its header describes it.",
    columns=(
        _TOPIC,
        _PARTITION,
        Column("segment", pa.string(), "name of the file"),
        Column("position", pa.int64(), "byte at which it starts in the file"),
        Column("size", pa.int64(), "bytes"),
        Column("magic", pa.int32(), "version of its format: 0, 1 or 2"),
        Column("base_offset", pa.int64(), "offset of its first record; of its last one in magic 0 and 1"),
        Column("last_offset", pa.int64(), "offset of its last record"),
        Column("record_count", pa.int32(), "records; null in magic 0 and 1", True),
        Column("codec", pa.string(), "none, gzip, snappy, lz4 or zstd"),
        Column("timestamp_type", pa.string(), "CreateTime, LogAppendTime or NoTimestampType"),
        Column("base_timestamp", TIMESTAMP, "timestamp of its first record; null for none", True),
        Column("max_timestamp", TIMESTAMP, "its largest timestamp; null for none", True),
        Column("partition_leader_epoch", pa.int32(), "leader epoch of its append; -1 for none"),
        Column("producer_id", pa.int64(), "-1 without a producer id"),
        Column("producer_epoch", pa.int32(), "-1 without a producer id"),
        Column("base_sequence", pa.int32(), "sequence of its first record; -1 for none"),
        Column("last_sequence", pa.int32(), "sequence of its last record; -1 for none"),
        Column("is_transactional", pa.bool_(), "whether it belongs to a transaction"),
        Column("is_control", pa.bool_(), "whether it is a control batch"),
        Column("control_type", pa.string(), "COMMIT or ABORT of a marker; null for data", True),
        Column("coordinator_epoch", pa.int32(), "epoch of the coordinator that wrote a marker; -1 for none"),
        Column("outcome", pa.string(), f"of its transaction: {one_of(OUTCOMES)}; null outside of any", True),
        Column("crc", pa.int64(), "the checksum that is stored"),
        Column("crc_ok", pa.bool_(), "whether it matches the bytes"),
    ),
    key=("topic", "partition", "base_offset"),
)

LOG_TRANSACTIONS = Contract(
    name="transactions",
    meaning="Every transaction with batches in a partition, as its markers decide it.",
    columns=(
        _TOPIC,
        _PARTITION,
        Column("producer_id", pa.int64(), "its producer"),
        Column("producer_epoch", pa.int32(), "the producer's epoch in its last batch"),
        Column("outcome", pa.string(), one_of(OUTCOMES)),
        Column("first_offset", pa.int64(), "offset of its first record"),
        Column("last_offset", pa.int64(), "offset of its last record"),
        Column(
            "marker_offset", pa.int64(), "offset of the marker that ended it; null while it is open", True
        ),
        Column("batches", pa.int64(), "its batches"),
        Column("records", pa.int64(), "its records"),
        Column("last_timestamp", TIMESTAMP, "largest timestamp of its last batch; null for none", True),
    ),
    key=("topic", "partition", "producer_id", "first_offset"),
)

LOG_ABORTED = Contract(
    name="aborted",
    meaning="The aborted transactions of a partition, as a transaction index lists them.",
    columns=(
        _TOPIC,
        _PARTITION,
        Column("producer_id", pa.int64(), "its producer"),
        Column("first_offset", pa.int64(), "offset of its first record"),
        Column("last_offset", pa.int64(), "offset of the marker"),
    ),
    key=("topic", "partition", "producer_id", "first_offset"),
)

LOG_PRODUCERS = Contract(
    name="producers",
    meaning="The producers of a partition at its end, as a broker remembers them.",
    columns=(
        _TOPIC,
        _PARTITION,
        Column("producer_id", pa.int64(), "the producer"),
        Column("producer_epoch", pa.int32(), "its newest epoch"),
        Column("last_sequence", pa.int32(), "sequence of its last record; null without a batch", True),
        Column("last_offset", pa.int64(), "offset of its last record; null without a batch", True),
        Column("last_timestamp", TIMESTAMP, "timestamp of its last batch or marker; null for none", True),
        Column("coordinator_epoch", pa.int32(), "epoch of the coordinator of its last marker; -1 for none"),
        Column("txn_first_offset", pa.int64(), "where its open transaction begins; null for none", True),
    ),
    key=("topic", "partition", "producer_id"),
)

LOG_REMARKS = Contract(
    name="remarks",
    meaning="What a broker would reject, misread or wait for.",
    columns=(
        _TOPIC,
        _PARTITION,
        Column("level", pa.string(), "note, warning or error"),
        Column("segment", pa.string(), "name of the file; null for a remark on the whole log", True),
        Column("remark", pa.string(), "a sentence"),
    ),
    key=(),
)

HEADER_TABLES = {
    table.name: table for table in (LOG_BATCHES, LOG_TRANSACTIONS, LOG_ABORTED, LOG_PRODUCERS, LOG_REMARKS)
}
"""The tables that need headers alone, by name."""
