"""The numbers that a night is judged by: small tables, whatever the size of the night."""

from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Tables `partition_facts` and `transaction_facts`, `topic_volumes` tonight and of earlier runs each."""

    partitions: pa.Table
    transactions: pa.Table
    volumes: pa.Table
    history: tuple[pa.Table, ...] = ()
