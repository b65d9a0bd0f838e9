"""`state_origins`: where each partition's state at the start of the run came from."""

from enum import StrEnum

import pyarrow as pa

from spark_jobs.tables.contract import Column, Contract

ORIGINS = "origins.parquet"
"""The table's file in the folder of `rebuild`."""


class StateOrigin(StrEnum):
    """What a partition's state was made of."""

    CHAIN = "chain"
    SNAPSHOT = "snapshot"
    SEED = "seed"
    EMPTY = "empty"


STATE_ORIGINS = Contract(
    name="state_origins",
    meaning="How the producer state of every partition with news tonight came about.",
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
        Column("expired", pa.int64(), "producers forgotten, because they were idle for too long"),
        Column("state", pa.string(), "SHA-256 of the state file"),
        Column("message", pa.string(), "what a person should know about it", True),
    ),
    key=("topic", "partition"),
)
