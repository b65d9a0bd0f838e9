"""What runs in a Spark task of `index`: bins in, index files in the lake, small summaries out."""

from dataclasses import dataclass, replace
from functools import cache, partial

from spark_jobs.config.settings import S3Settings
from spark_jobs.indexing.index_file import IndexFile
from spark_jobs.indexing.piece import Bin, Piece, Summary
from spark_jobs.indexing.scan import Extent, scan_piece
from spark_jobs.indexing.walk import WalkLimits
from spark_jobs.indexing.window import StagedBytes
from spark_jobs.storage.mapping import can_map
from spark_jobs.storage.object_store import ObjectStore
from spark_jobs.storage.parquet_file import ParquetOutput
from spark_jobs.storage.stores import open_store
from spark_jobs.tables.index import INDEX, PARQUET_OPTIONS

MAPPED_BYTES = 16 * 2**20
"""Looked through at a time where the system maps files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexTask:
    """Some bins for one worker; `folder` is the key of the step's folder in the lake."""

    bins: tuple[Bin, ...]
    lake: ObjectStore
    folder: str
    s3: S3Settings
    limits: WalkLimits


def index_bins(task: IndexTask) -> tuple[Summary, ...]:
    """Writes one file per bin; the same task again writes the same bytes."""
    return tuple(_index_bin(task, each) for each in task.bins)


def _index_bin(task: IndexTask, each: Bin) -> Summary:
    with ParquetOutput(task.lake, INDEX.schema, PARQUET_OPTIONS) as output:
        file = IndexFile(output)
        extents = [_index_piece(task, piece, file) for piece in each.pieces]
        file.flush()
        return Summary(
            first=extents[0].first,
            end=extents[-1].end,
            rows=file.rows,
            problems=file.problems,
            examples=file.examples,
            output=output.finish(task.folder, each.file),
        )


def _index_piece(task: IndexTask, piece: Piece, file: IndexFile) -> Extent:
    store = _store(piece.store, task.s3)
    is_here = store.local_path(piece.key) is not None
    staged = StagedBytes(
        size=piece.size,
        read_range=partial(store.read_range, piece.key, version=piece.version),
        view_range=partial(store.viewed, piece.key, version=piece.version) if is_here else None,
    )
    limits = _limits(task, is_here=is_here)
    if not piece.counts_keys:
        limits = replace(limits, record_limits=None)
    return scan_piece(staged, piece, file, limits)


def _limits(task: IndexTask, *, is_here: bool) -> WalkLimits:
    """Larger windows from afar, since each one is a request, and where they need no memory of their own."""
    if is_here:
        return replace(task.limits, window_bytes=MAPPED_BYTES) if can_map() else task.limits
    return replace(task.limits, window_bytes=task.s3.part_bytes)


@cache
def _store(url: str, s3: S3Settings) -> ObjectStore:
    """One client per store and worker."""
    return open_store(url, s3)
