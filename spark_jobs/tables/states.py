"""Tables of state within a run and for the next run: partition states, folds, inherited objects."""

from enum import StrEnum

import pyarrow as pa

from spark_jobs.tables.contract import Column, Contract

STATES = Contract(
    name="states",
    file="state.parquet",
    meaning="The state of every partition ever seen; one without news keeps its digest.",
    columns=(
        Column("topic", pa.string(), "topic of the state"),
        Column("partition", pa.int32(), "partition of the state"),
        Column("state", pa.string(), "SHA-256 of the state file"),
    ),
    key=("topic", "partition"),
)


class FoldKind(StrEnum):
    """The content of a folded file."""

    HELD_STATE = "held_state"
    """Of a partition: its published offset, undecided transactions, held batches."""
    TIMELINES = "timelines"
    """Of a partition of `__transaction_state`: the state of every transactional id."""
    GROUP_OFFSETS = "group_offsets"
    """Of a partition of `__consumer_offsets`: committed and pending offsets."""


FOLDS = Contract(
    name="folds",
    file="folds.parquet",
    meaning="The current file of each folded partition; an unchanged one keeps its digest.",
    columns=(
        Column("kind", pa.string(), "what the file holds"),
        Column("topic", pa.string(), "topic of the partition"),
        Column("partition", pa.int32(), "the partition"),
        Column("digest", pa.string(), "SHA-256 of the file"),
    ),
    key=("kind", "topic", "partition"),
)


INHERITED_OBJECTS = Contract(
    name="inherited_objects",
    file="inherited_objects.parquet",
    meaning="Objects that earlier runs staged and this one needs again, for parked batches in them.",
    columns=(
        Column("object_order", pa.int32(), "negative, so before every object of the run; by arrival"),
        Column("topic", pa.string(), "topic of the batches"),
        Column("partition", pa.int32(), "partition of the batches"),
        Column("source", pa.string(), "name of the source"),
        Column("path", pa.string(), "path below the source's root"),
        Column("role", pa.string(), "what the object is for"),
        Column("size", pa.int64(), "bytes of the object"),
        Column("sha256", pa.string(), "content of the object"),
        Column("version", pa.string(), "version at the source; empty for a copied object"),
        Column("referenced", pa.bool_(), "whether the bytes are read from the source instead of the lake"),
    ),
    key=("object_order",),
)
