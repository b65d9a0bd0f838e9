"""Tables of `rebuild`: the origin of each partition's state, and timelines and markers of the coordinator."""

from enum import StrEnum

import pyarrow as pa

from spark_jobs.tables.contract import Column, Contract


class StateOrigin(StrEnum):
    """The source of a partition's state."""

    CHAIN = "chain"
    SNAPSHOT = "snapshot"
    SEED = "seed"
    EMPTY = "empty"


STATE_ORIGINS = Contract(
    name="state_origins",
    file="origins.parquet",
    meaning="The origin of the producer state of every partition with objects in this run.",
    columns=(
        Column("topic", pa.string(), "topic of the state"),
        Column("partition", pa.int32(), "partition of the state"),
        Column("origin", pa.string(), "chain, snapshot, seed (snapshot and tail of another log) or empty"),
        Column("run_id", pa.string(), "the run that handed the state on; null without one", True),
        Column("snapshot", pa.string(), "source and path of the snapshot that was read", True),
        Column("snapshot_offset", pa.int64(), "the snapshot holds all offsets below this one", True),
        Column("tail_first_offset", pa.int64(), "first offset that was replayed after the snapshot", True),
        Column("tail_last_offset", pa.int64(), "last offset that was replayed after the snapshot", True),
        Column("skipped", pa.list_(pa.string()), "snapshots that could not be read, with the reason"),
        Column("producers", pa.int64(), "producers that the state knows"),
        Column("expired", pa.int64(), "producers expired after `producer_id_expiration_ms`"),
        Column("state", pa.string(), "SHA-256 of the state file"),
        Column("message", pa.string(), "what a person should know about it", True),
    ),
    key=("topic", "partition"),
)


TIMELINES = Contract(
    name="timelines",
    file="timelines/{partition:05d}.parquet",
    meaning=(
        "Every transaction that is not settled, in the order of the coordinator's log; a row without a state "
        "says only who owns a producer id."
    ),
    columns=(
        Column("producer_id", pa.int64(), "its producer"),
        Column("transactional_id", pa.string(), "its owner"),
        Column("coordinator_partition", pa.int32(), "partition of __transaction_state with its records"),
        Column("is_unreadable", pa.bool_(), "the owner's last record cannot be read"),
        Column("is_news", pa.bool_(), "whether it has records in this run"),
        Column(
            "state", pa.int8(), "its status as stored; null if the row is only about the producer id", True
        ),
        Column("producer_epoch", pa.int16(), "epoch of its data, if a record has it", True),
        Column("marker_epoch", pa.int16(), "epoch of its markers, once decided", True),
        Column("transaction_timeout_ms", pa.int32(), "its timeout", True),
        Column("start_timestamp_ms", pa.int64(), "when it began, ms since 1970", True),
        Column("last_update_timestamp_ms", pa.int64(), "when its last record was written", True),
        Column("end_timestamp_ms", pa.int64(), "when it was decided; null while it is not", True),
        Column("topics", pa.list_(pa.string()), "topics of the partitions it lists; null if unknown", True),
        Column("partitions", pa.list_(pa.int32()), "numbers of these partitions, in the same order", True),
        Column("client_transaction_version", pa.int16(), "2 if its client speaks TV2", True),
        Column("is_epoch_bumped", pa.bool_(), "whether no other transaction has its marker epoch", True),
        Column("is_cut", pa.bool_(), "whether the log continues without its end", True),
        Column("has_known_past", pa.bool_(), "whether the state before it is known", True),
        Column("first_record_offset", pa.int64(), "offset of its first record still there", True),
        Column("last_record_offset", pa.int64(), "offset of its last record", True),
        Column("coordinator_epochs", pa.list_(pa.int32()), "leader epochs of its records", True),
    ),
    key=("producer_id", "first_record_offset"),
)

TIMELINE_FILES = Contract(
    name="timeline_files",
    file="timelines.parquet",
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


MARKERS = Contract(
    name="markers",
    file="markers/{partition}.parquet",
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
    file="markers.parquet",
    meaning="The files of the table `markers`, one per partition that has any.",
    columns=(
        Column("topic", pa.string(), "topic of the markers"),
        Column("partition", pa.int32(), "partition of the markers"),
        Column("file", pa.string(), "path below the folder of the step rebuild"),
    ),
    key=("topic", "partition"),
)
