"""What a Spark task writes of the index: one file of a sorted run, or of a run date's first records."""

import numpy as np
import pyarrow as pa

from spark_jobs.kernels.ids import Hashes, bucket_range
from spark_jobs.lake.id_index import Days, Piece, put_firsts, put_hashes, read_hashes
from spark_jobs.lake.parquet_file import read_groups
from spark_jobs.pipeline.deduplicate.job import NewIds, PieceTask
from spark_jobs.tables.deduplicate import FIRST_SCHEMA


def write_hashes(task: PieceTask) -> Piece:
    """A file of hashes: those of earlier runs and new ones, sorted."""
    parts = [read_hashes(task.lake, run, task.number, task.count) for run in task.runs]
    parts += [_new_hashes(task, new) for new in task.new]
    hashes = np.concatenate([np.empty(0, np.int64), *(hashes for hashes, _ in parts)])
    days = np.concatenate([np.empty(0, np.int32), *(days for _, days in parts)])
    order = np.lexsort((days, hashes))
    return put_hashes(task.lake, hashes[order], days[order])


def write_firsts(task: PieceTask) -> Piece:
    """A file of first records of one run date."""
    [new] = task.new
    return put_firsts(task.lake, _new_rows(task, new))


def _new_hashes(task: PieceTask, new: NewIds) -> tuple[Hashes, Days]:
    hashes = np.asarray(_new_rows(task, new).column("hash").combine_chunks())
    return hashes, np.full(hashes.size, new.day, dtype=np.int32)


def _new_rows(task: PieceTask, new: NewIds) -> pa.Table:
    """New first records within the range of the file; buckets ascend, so they are sorted by hash."""
    first, last = bucket_range(task.number, task.count)
    found = [FIRST_SCHEMA.empty_table()]
    for bucket, key in new.files:
        begin, end = bucket_range(bucket, task.buckets)
        if begin <= last and end >= first:
            rows = read_groups(task.lake, key, "hash", first, last).cast(FIRST_SCHEMA)
            hashes = np.asarray(rows.column("hash").combine_chunks())
            found.append(rows.filter(pa.array((hashes >= first) & (hashes <= last))))
    return pa.concat_tables(found)
