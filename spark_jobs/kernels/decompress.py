"""Payloads of many batches, decompressed into one arena: the twin of `protocol.compression.decompress`.

The codecs that most payloads have go a short way. Whatever that does not finish, a damaged stream or an
unusual frame, goes the pure way, which alone decides what is an error: there cannot be two answers.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from spark_jobs.kernels.arena import Arena
from spark_jobs.kernels.columns import HeaderColumns
from spark_jobs.kernels.memory import Bytes, as_bytes
from spark_jobs.kernels.short_ways import put_lz4, put_zstd
from spark_jobs.protocol.compression import DEFAULT_LIMIT, decompress
from spark_jobs.protocol.errors import CorruptData
from spark_jobs.protocol.record_batch import CODEC_MASK, HEADER_SIZE, Codec

DEFAULT_BUDGET = 4 * 1024 * 1024
"""What was just decompressed is still in the cache when it is decoded."""
_FIRST_ROOM = 4
"""Bytes of room per compressed byte at first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PayloadProblem:
    """A batch, counted as in the call, whose payload could not be read."""

    batch: int
    error: CorruptData


@dataclass(frozen=True, slots=True, kw_only=True)
class Payloads:
    """The first batches' records: those of batch i are `arena[start[i]:end[i]]`, none if it has a problem."""

    arena: Bytes
    start: npt.NDArray[np.int64]
    end: npt.NDArray[np.int64]
    problems: tuple[PayloadProblem, ...]

    @property
    def batches(self) -> int:
        return self.start.size


def decompress_batches(
    buffer: Any,
    headers: HeaderColumns,
    *,
    limit: int = DEFAULT_LIMIT,
    budget: int = DEFAULT_BUDGET,
    source: str = "<bytes>",
    origin: int = 0,
    arena: Arena | None = None,
) -> Payloads:
    """Payloads of v2 batches in order, until `budget` bytes are reached; at least one batch if there is one.

    A batch of more than `limit` bytes is a problem of its own. `headers` are of a scan of `buffer`, which
    begins at byte `origin` of `source`. Uncompressed batches stay where they are, unless others force a copy.
    An `arena` of an earlier call is overwritten: memory that was touched before is faster.
    """
    data = as_bytes(buffer)
    if not np.any(headers.attributes & CODEC_MASK):
        return _in_place(data, headers, budget)
    arena = arena or Arena(min(_FIRST_ROOM * int(headers.size.sum()), 2 * budget))
    arena.clear()
    return _into_arena(arena, data, headers, limit, budget, source, origin)


def _in_place(data: Bytes, headers: HeaderColumns, budget: int) -> Payloads:
    start, end = headers.position + HEADER_SIZE, headers.position + headers.size
    fitting = int(np.searchsorted(np.cumsum(end - start), budget)) + 1
    return Payloads(arena=data, start=start[:fitting], end=end[:fitting], problems=())


def _into_arena(
    arena: Arena, data: Bytes, headers: HeaderColumns, limit: int, budget: int, source: str, origin: int
) -> Payloads:
    view, edges, problems = memoryview(data.data), [0], []
    rows = (headers.position, headers.size, headers.attributes & CODEC_MASK, headers.record_count)
    for batch, (position, size, codec, count) in enumerate(zip(*(row.tolist() for row in rows), strict=True)):
        if arena.used >= budget and batch:
            break
        payload = view[position + HEADER_SIZE : position + size]
        if count:  # else whatever bytes are there, a broker does not look at them
            try:
                _put(arena, codec, payload, limit, source, origin + position + HEADER_SIZE)
            except CorruptData as error:
                problems.append(PayloadProblem(batch=batch, error=error))
        edges.append(arena.used)
    return Payloads(
        arena=arena.content,
        start=np.array(edges[:-1], dtype=np.int64),
        end=np.array(edges[1:], dtype=np.int64),
        problems=tuple(problems),
    )


def _put(arena: Arena, codec: int, payload: memoryview, limit: int, source: str, position: int) -> None:
    if codec == Codec.LZ4 and put_lz4(arena, payload, limit):
        return
    if codec == Codec.ZSTD and put_zstd(arena, payload, limit):
        return
    arena.put(
        payload
        if codec == Codec.NONE
        else decompress(codec, payload, limit=limit, source=source, position=position)
    )
