"""`transactions`: one outcome per transaction, and what says so."""

import pyarrow as pa

from spark_jobs.tables.contract import Column, Contract

_NAMES = pa.list_(pa.string())

TRANSACTIONS = Contract(
    name="transactions",
    meaning="Every transaction with news tonight, and every one that is still undecided.",
    columns=(
        Column(
            "transactional_id", pa.string(), "its owner; null where the coordinator's log tells none", True
        ),
        Column("producer_id", pa.int64(), "its producer"),
        Column("producer_epoch", pa.int16(), "epoch of its data"),
        Column("outcome", pa.string(), "committed, aborted, ongoing, hanging, conflict or ambiguous"),
        Column("evidence", _NAMES, "what says so, the strongest first"),
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
