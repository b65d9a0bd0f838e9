"""`folds`: what `resolve` itself carries from night to night, as names of files."""

from enum import StrEnum

import pyarrow as pa

from spark_jobs.tables.contract import Column, Contract


class FoldKind(StrEnum):
    """What a file holds."""

    WAITING = "waiting"
    """Of a partition: how far it is published, transactions that are not settled, batches held back."""
    TIMELINES = "timelines"
    """Of a partition of `__transaction_state`: where every transactional id stands."""
    GROUP_OFFSETS = "group_offsets"
    """Of a partition of `__consumer_offsets`: committed and pending offsets."""


FOLDS = Contract(
    name="folds",
    meaning="The file that speaks for each folded partition; one without news keeps its digest.",
    columns=(
        Column("kind", pa.string(), "what the file holds"),
        Column("topic", pa.string(), "topic of the partition"),
        Column("partition", pa.int32(), "the partition"),
        Column("digest", pa.string(), "SHA-256 of the file"),
    ),
    key=("kind", "topic", "partition"),
)
