"""The counts that expectations are evaluated on: small tables, whatever the size of the run."""

from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Tables `source_facts`, `partition_facts` and `transaction_facts`, and `topic_volumes` of the run.

    `history` are the `topic_volumes` of earlier runs.
    """

    sources: pa.Table
    partitions: pa.Table
    transactions: pa.Table
    volumes: pa.Table
    history: tuple[pa.Table, ...] = ()
