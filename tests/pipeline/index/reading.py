"""Indexes bytes in memory: the workers' scan and the driver's settling without files and without Spark."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise

import pyarrow as pa

from spark_jobs.kafka.topic_partition import TopicPartition
from spark_jobs.lake.run_folder import OutputFile
from spark_jobs.pipeline.index.job import Bin, BinSummary, Copy, Piece
from spark_jobs.pipeline.index.step import IndexedBin, JoinedParts, index_until_joined
from spark_jobs.pipeline.index.walk import ReadRange, StagedBytes, ViewRange, WalkLimits
from spark_jobs.pipeline.index.worker import IndexedObject, IndexFile, KnownHeaders, no_headers, scan_piece
from spark_jobs.tables.index import INDEX

COPY = Copy(partition=TopicPartition("orders", 0), number=0, source="gateway", directory="")
LIMITS = WalkLimits()


class MemoryOutput:
    """Rows that stay in memory."""

    def __init__(self) -> None:
        self.tables: list[pa.Table] = []

    def write(self, table: pa.Table) -> None:
        self.tables.append(table)

    def prune(self) -> None:
        self.tables = []


def parts(size: int, cuts: Sequence[int] = ()) -> list[Bin]:
    """An object of `size` bytes, cut at these positions."""
    return [_part(size, start, stop) for start, stop in pairwise([0, *cuts, size])]


def _part(size: int, start: int, stop: int) -> Bin:
    piece = Piece(
        object_order=0,
        store="",
        key="",
        version="",
        size=size,
        start=start,
        stop=stop,
        boundary=0 if start == 0 else None,
    )
    return Bin(copy=COPY, pieces=(piece,))


def summary(first: int | None, end: int) -> BinSummary:
    """The summary of a worker that wrote no file."""
    nothing = OutputFile(path="", size=0, digest="")
    return BinSummary(first=first, end=end, rows=0, problems=0, examples=(), output=nothing)


def index_object(
    read_range: ReadRange,
    size: int,
    cuts: Sequence[int] = (),
    limits: WalkLimits = LIMITS,
    *,
    view_range: ViewRange | None = None,
    headers: KnownHeaders = no_headers,
) -> tuple[JoinedParts, pa.Table]:
    """How the parts of an object joined, and all its rows."""
    staged = StagedBytes(size=size, read_range=read_range, view_range=view_range)
    indexed_object = IndexedObject(staged=staged, limits=limits, headers=headers)
    written: dict[str, list[pa.Table]] = {}

    def index(bins: Sequence[Bin]) -> list[IndexedBin]:
        return [IndexedBin(bin=each, summary=_index(each)) for each in bins]

    def _index(each: Bin) -> BinSummary:
        output = MemoryOutput()
        file = IndexFile(output)
        extent = scan_piece(indexed_object, each.pieces[0], file)
        file.flush()
        written[each.file] = output.tables
        return summary(extent.first, extent.end)

    joined = index_until_joined(parts(size, cuts), index)
    tables = [table for each in joined.kept for table in written[each.bin.file]]
    return joined, pa.concat_tables([INDEX.empty(), *tables]).combine_chunks()


def index_bytes(
    data: bytes, cuts: Sequence[int] = (), limits: WalkLimits = LIMITS
) -> tuple[JoinedParts, pa.Table]:
    """The same for an object that holds `data`."""
    return index_object(lambda start, length: data[start : start + length], len(data), cuts, limits)


def viewed_bytes(data: bytes) -> ViewRange:
    """The same bytes for a look; who keeps a look longer than it lasts finds nothing there."""

    @contextmanager
    def view_range(start: int, length: int) -> Iterator[bytes | memoryview]:
        copy = bytearray(data[start : start + length])
        yield memoryview(copy)
        copy[:] = bytes(len(copy))

    return view_range
