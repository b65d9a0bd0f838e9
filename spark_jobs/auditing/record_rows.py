"""Rows of a topic's table as files hold them: only the columns and row groups that the audit looks at."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.kernels.record_rows import RecordColumns
from spark_jobs.storage.object_store import ObjectStore
from spark_jobs.storage.parquet_file import iter_groups

PARTITION = "partition"
KEYS_AT_A_TIME = 4096
"""A few are wanted, and to decode them all would cost more than all else that is read."""


def iter_records(lake: ObjectStore, key: str, first: int, last: int) -> Iterator[tuple[int, RecordColumns]]:
    """Rows of the partitions `first` to `last` in the order of the file, each part of one partition."""
    for part in iter_groups(lake, key, PARTITION, first, last, columns=list(RecordColumns._fields)):
        yield from _by_partition(_columns(part))


def sample_keys(lake: ObjectStore, keys: Sequence[str], partition: int, most: int) -> list[bytes]:
    """Up to `most` keys from where the partition begins; records without a key have none."""
    parts = (
        part
        for key in keys
        for part in iter_groups(
            lake, key, PARTITION, partition, partition, columns=[PARTITION, "key"], rows=KEYS_AT_A_TIME
        )
    )
    found: list[bytes | None] = []
    for part in parts:
        rows = part.filter(pc.equal(part.column(PARTITION), pa.scalar(partition, pa.int32())))
        found += rows.column("key").slice(0, most - len(found)).to_pylist()
        if len(found) >= most:
            break
    return [key for key in found if key is not None]


def _columns(part: pa.RecordBatch) -> RecordColumns:
    return RecordColumns._make(np.asarray(part.column(name)) for name in RecordColumns._fields)


def _by_partition(rows: RecordColumns) -> Iterator[tuple[int, RecordColumns]]:
    changes = np.flatnonzero(rows.partition[1:] != rows.partition[:-1]) + 1
    cuts = [0, *changes.tolist(), rows.partition.size]
    for start, stop in pairwise(cuts):
        if start < stop:
            yield int(rows.partition[start]), rows.part(start, stop)
