"""`timelines`: the transactions that the coordinator's log has."""

import pyarrow as pa

from spark_jobs.tables.contract import Column, Contract

TIMELINES = Contract(
    name="timelines",
    meaning=(
        "Every transaction that is not settled, in the order of the coordinator's log; a row without a state "
        "says only who owns a producer id."
    ),
    columns=(
        Column("producer_id", pa.int64(), "its producer"),
        Column("transactional_id", pa.string(), "its owner"),
        Column("coordinator_partition", pa.int32(), "partition of __transaction_state that tells of it"),
        Column("is_unreadable", pa.bool_(), "the owner's last record cannot be read"),
        Column("is_news", pa.bool_(), "whether tonight's records tell of it"),
        Column(
            "state", pa.int8(), "its status as stored; null if the row is only about the producer id", True
        ),
        Column("producer_epoch", pa.int16(), "epoch of its data, if a record tells", True),
        Column("marker_epoch", pa.int16(), "epoch of its markers, once decided", True),
        Column("transaction_timeout_ms", pa.int32(), "its timeout", True),
        Column("start_timestamp_ms", pa.int64(), "when it began, ms since 1970", True),
        Column("last_update_timestamp_ms", pa.int64(), "when its last record was written", True),
        Column("end_timestamp_ms", pa.int64(), "when it was decided; null while it is not", True),
        Column("topics", pa.list_(pa.string()), "topics of the partitions it lists; null if unknown", True),
        Column("partitions", pa.list_(pa.int32()), "numbers of these partitions, in the same order", True),
        Column("client_transaction_version", pa.int16(), "2 if its client speaks TV2", True),
        Column("is_epoch_bumped", pa.bool_(), "whether no other transaction has its marker epoch", True),
        Column("is_cut", pa.bool_(), "whether the log goes on without its end", True),
        Column("has_known_past", pa.bool_(), "whether the state before it is known", True),
        Column("first_record_offset", pa.int64(), "offset of its first record still there", True),
        Column("last_record_offset", pa.int64(), "offset of its last record", True),
        Column("coordinator_epochs", pa.list_(pa.int32()), "leader epochs of its records", True),
    ),
    key=("producer_id", "first_record_offset"),
)

TIMELINE_FILES = Contract(
    name="timeline_files",
    meaning="The folded partitions of __transaction_state.",
    columns=(
        Column("partition", pa.int32(), "partition of __transaction_state"),
        Column("file", pa.string(), "file of the table `timelines`, below the folder of the step rebuild"),
        Column("fold", pa.string(), "SHA-256 of the whole fold, settled transactions included"),
        Column("rows", pa.int64(), "rows of the file"),
        Column("newest_timestamp", pa.int64(), "time of its newest record, ms since 1970; -1 if not known"),
    ),
    key=("partition",),
)
