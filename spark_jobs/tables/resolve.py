"""Tables of `resolve`: one outcome per transaction, and the offsets that the run publishes."""

import pyarrow as pa

from spark_jobs.kafka.transactions.outcome import Outcome
from spark_jobs.tables.contract import Column, Contract, one_of

_NAMES = pa.list_(pa.string())

TRANSACTIONS = Contract(
    name="transactions",
    file="transactions/{task:05d}.parquet",
    meaning="Every transaction with new records in this run, and every undecided one.",
    columns=(
        Column(
            "transactional_id",
            pa.string(),
            "transactional id; null where the coordinator's log has none",
            True,
        ),
        Column("producer_id", pa.int64(), "its producer"),
        Column("producer_epoch", pa.int16(), "epoch of its data"),
        Column("outcome", pa.string(), one_of(Outcome)),
        Column("evidence", _NAMES, "evidence, the strongest first"),
        Column("sentence", pa.string(), "outcome and evidence in words"),
        Column("published", pa.bool_(), "whether this run publishes its records"),
        Column("state", pa.string(), "where the coordinator has it, such as PrepareCommit", True),
        Column("transaction_version", pa.int16(), "2 if its client speaks TV2, else 0", True),
        Column("transaction_timeout_ms", pa.int32(), "its timeout", True),
        Column(
            "start_timestamp", pa.int64(), "when the coordinator began it, else its first batch", True, True
        ),
        Column("end_timestamp", pa.int64(), "when it was decided; null while it is not", True, True),
        Column(
            "partitions_expected", _NAMES, "partitions that the coordinator lists, as topic-partition", True
        ),
        Column("partitions_found", _NAMES, "partitions that hold data of it"),
        Column("markers_missing", _NAMES, "partitions that should have a marker, but have none"),
        Column("batches", pa.int64(), "its batches, on all partitions"),
        Column("records", pa.int64(), "records in them"),
        Column("first_offsets", pa.list_(pa.int64()), "where it begins on each of the partitions found"),
        Column("coordinator_epochs", pa.list_(pa.int32()), "epochs of the coordinators that worked on it"),
        Column(
            "age_ms",
            pa.int64(),
            "time from its last batch to the newest time that the copies show, while it is undecided",
            True,
        ),
        Column("held_back", pa.int64(), "offsets that readers cannot reach because of it"),
        Column(
            "abort_commands",
            _NAMES,
            "how to end a hanging one: the check to run first, the command, and what it destroys",
        ),
        Column(
            "coordinator_time",
            pa.int64(),
            "time that the copy of its coordinator's log reaches, while it is undecided",
            True,
            True,
        ),
        Column("data_time", pa.int64(), "time that the copies of its partitions reach; likewise", True, True),
    ),
    key=("producer_id", "producer_epoch", "start_timestamp"),
)


OUTCOMES = Contract(
    name="outcomes",
    file="outcomes/{partition}.parquet",
    meaning="Transactions with data on one partition by first offset; the aborted ones are aborted ranges.",
    columns=(
        Column("first_offset", pa.int64(), "first offset of its data: `txn_first_offset` of its batches"),
        Column("last_offset", pa.int64(), "last offset of its data so far"),
        Column("producer_id", pa.int64(), "its producer"),
        Column("producer_epoch", pa.int16(), "newest epoch of its data"),
        Column(
            "transactional_id",
            pa.string(),
            "transactional id; null where the coordinator's log has none",
            True,
        ),
        Column("outcome", pa.string(), one_of(Outcome)),
        Column(
            "timed_out",
            pa.bool_(),
            "aborted because its timeout had passed at the run's time, not by a marker or the coordinator",
        ),
        Column("marker_offset", pa.int64(), "offset of the marker that closed it here", True),
        Column("batches", pa.int64(), "its batches on the partition"),
        Column("records", pa.int64(), "records in them"),
    ),
    key=("first_offset",),
)


RESOLVED_PARTITIONS = Contract(
    name="resolved_partitions",
    file="partitions.parquet",
    meaning="Every partition ever seen. The run publishes committed records from first to before end offset.",
    columns=(
        Column("topic", pa.string(), "the topic"),
        Column("partition", pa.int32(), "the partition"),
        Column("first_offset", pa.int64(), "first offset that the run publishes; may be inside a batch"),
        Column("end_offset", pa.int64(), "offset after the last one that the run publishes"),
        Column("batches", pa.string(), "file with the run's batches below the folder of admit", True),
        Column("outcomes", pa.string(), "file of the table `outcomes` below the folder of resolve", True),
        Column("held", pa.list_(pa.string()), "SHA-256 of files with batches that earlier runs held"),
        Column("late", pa.list_(pa.int64()), "transactions below the first offset to publish all the same"),
        Column("log_start_offset", pa.int64(), "first offset that the log still promises"),
        Column("log_end_offset", pa.int64(), "offset after the last batch"),
        Column("first_unstable_offset", pa.int64(), "start of the oldest transaction without a marker", True),
        Column("last_stable_offset", pa.int64(), "as a broker reports it if everything is replicated"),
        Column(
            "high_watermark", pa.int64(), "as checkpointed by the broker; null without a checkpoint", True
        ),
        Column("replicated_stable_offset", pa.int64(), "last stable offset under that high watermark", True),
        Column(
            "decided_offset",
            pa.int64(),
            "first offset of the oldest undecided transaction that holds others back",
        ),
        Column("lag", pa.int64(), "offsets between the last stable offset and the log's end"),
        Column("undecided", pa.int64(), "undecided transactions"),
        Column("held_batches", pa.int64(), "batches held for a later run"),
        Column("unsettled", pa.int64(), "transactions that something is still to come of"),
        Column("marked_until", pa.int64(), "time of the newest marker, ms since 1970", True),
        Column("marked_offset", pa.int64(), "offset of the newest marker", True),
        Column("has_markers", pa.bool_(), "false for captures of producers alone, without a coordinator"),
        Column("held_state", pa.string(), "SHA-256 of the file with the held transactions"),
    ),
    key=("topic", "partition"),
)


CONSUMER_OFFSETS = Contract(
    name="consumer_offsets",
    file="consumer_offsets/{partition:05d}.parquet",
    meaning="The committed offset of each group and partition, and pending transactional offsets.",
    columns=(
        Column("group", pa.string(), "the consumer group"),
        Column("topic", pa.string(), "topic that the group reads"),
        Column("partition", pa.int32(), "partition that the group reads"),
        Column("offset", pa.int64(), "the next offset that the group will read"),
        Column("leader_epoch", pa.int32(), "leader epoch of the record before; -1 if unknown"),
        Column("metadata", pa.string(), "what the consumer noted with it"),
        Column("commit_timestamp", pa.int64(), "when it was committed", is_time=True),
        Column(
            "expire_timestamp", pa.int64(), "when it expires; none by the broker's own rule", is_time=True
        ),
        Column("pending", pa.bool_(), "pending until its transaction ends"),
        Column("producer_id", pa.int64(), "producer of the transaction; -1 outside of any"),
        Column("record_offset", pa.int64(), "offset of the record in __consumer_offsets"),
        Column("offsets_partition", pa.int32(), "partition of __consumer_offsets that holds the record"),
    ),
    key=("group", "topic", "partition", "producer_id"),
)
