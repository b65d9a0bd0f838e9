"""Rows divided by producer id, so that each bucket can be resolved by itself: a shuffle through files.

A file holds row groups of one bucket each; a reader of some buckets reads only theirs. How many buckets there
are follows from the run's size alone, so that the same run gives the same files on any machine.
"""

from collections.abc import Iterable
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_jobs.storage.object_store import ObjectStore
from spark_jobs.storage.parquet_file import ParquetOutput, read_groups

BUCKET = "bucket"
ROWS_PER_BUCKET = 40_000
"""Batches of the run per bucket: more than transactions, usually, one of which takes as long as many."""
MOST_BUCKETS = 256
_SPREAD = np.uint64(0x9E3779B97F4A7C15)
"""2^64 divided by the golden ratio: consecutive ids land far apart."""


def bucket_count(batches: int) -> int:
    """A power of two."""
    shares = -(-batches // ROWS_PER_BUCKET)
    return min(1 << max(shares - 1, 0).bit_length(), MOST_BUCKETS)


def bucket_of(producer_id: npt.NDArray[np.int64], buckets: int) -> npt.NDArray[np.int32]:
    """The bucket of each producer id."""
    mixed = producer_id.astype(np.uint64) * _SPREAD >> np.uint64(40)
    return (mixed % np.uint64(buckets)).astype(np.int32)


def write_grouped(output: ParquetOutput, table: pa.Table, column: str) -> None:
    """Writes `table` with a row group for every value of the number `column`, ascending."""
    keys = table.column(column).to_numpy()
    order = np.argsort(keys, kind="stable")
    ordered, keys = table.take(order), keys[order]
    edges = np.flatnonzero(np.diff(keys)) + 1
    for start, stop in pairwise([0, *edges.tolist(), keys.size]):
        if stop > start:
            output.write(ordered.slice(start, stop - start))


def read_grouped(
    lake: ObjectStore, keys: Iterable[str], column: str, wanted: range, *, schema: pa.Schema
) -> pa.Table:
    """The rows of several files in which the number `column` is `wanted`."""
    tables = [read_groups(lake, key, column, wanted.start, wanted.stop - 1) for key in keys]
    return pa.concat_tables(tables).cast(schema) if tables else schema.empty_table()
