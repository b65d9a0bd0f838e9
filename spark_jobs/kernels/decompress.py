"""Payloads of many batches, decompressed into one arena: the twin of `protocol.compression.decompress`.

The codecs that most payloads have are decompressed by one compiled loop over the batches. Whatever that does
not finish, a damaged stream or an unusual frame, goes the pure way, which alone decides what is an error:
there cannot be two answers.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from spark_jobs.kernels.arena import Arena
from spark_jobs.kernels.columns import HeaderColumns
from spark_jobs.kernels.compile import helper, kernel
from spark_jobs.kernels.lz4 import lz4_address, put_lz4
from spark_jobs.kernels.memory import Bytes, as_bytes, copy_bytes
from spark_jobs.kernels.outcome import DONE, NEEDS_ROOM, UNUSUAL, Outcome
from spark_jobs.kernels.zstd import ZstdCalls, put_zstd, zstd_calls
from spark_jobs.protocol.compression import DEFAULT_LIMIT, decompress
from spark_jobs.protocol.errors import CorruptData
from spark_jobs.protocol.record_batch import CODEC_MASK, HEADER_SIZE, Codec

DEFAULT_BUDGET = 4 * 1024 * 1024
"""What was just decompressed is still in the cache when it is decoded."""
_FIRST_ROOM = 4
"""Bytes of room per compressed byte at first."""
_NONE, _LZ4, _ZSTD = int(Codec.NONE), int(Codec.LZ4), int(Codec.ZSTD)


@dataclass(frozen=True, slots=True, kw_only=True)
class PayloadProblem:
    """A batch, counted as in the call, whose payload could not be read."""

    batch: int
    error: CorruptData


class Compressed(NamedTuple):
    """The columns of headers that say where payloads stand and how they are compressed."""

    position: npt.NDArray[np.int64]
    size: npt.NDArray[np.int64]
    attributes: npt.NDArray[np.int16]
    record_count: npt.NDArray[np.int32]


class Calls(NamedTuple):
    """Addresses of the libraries' functions; 0 where there is no library."""

    lz4: int
    zstd: ZstdCalls


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
    arena = arena or Arena(min(_FIRST_ROOM * int(headers.size.sum()), budget + budget // 4))
    arena.clear()
    return _into_arena(arena, data, headers, limit, budget, source, origin)


def _in_place(data: Bytes, headers: HeaderColumns, budget: int) -> Payloads:
    start, end = headers.position + HEADER_SIZE, headers.position + headers.size
    fitting = int(np.searchsorted(np.cumsum(end - start), budget)) + 1
    return Payloads(arena=data, start=start[:fitting], end=end[:fitting], problems=())


@helper
def _put_plain(memory: Bytes, used: int, data: Bytes, start: int, end: int) -> Outcome:
    """An uncompressed payload among compressed ones."""
    if memory.size - used < end - start:
        return Outcome(NEEDS_ROOM, used, end - start)
    copy_bytes(memory, used, data, start, end - start)
    return Outcome(DONE, used + end - start, 0)


@helper
def _put(
    calls: Calls, memory: Bytes, used: int, data: Bytes, start: int, end: int, codec: int, limit: int
) -> Outcome:
    if codec == _LZ4:
        return put_lz4(calls.lz4, memory, used, data, start, end, limit)
    if codec == _ZSTD:
        return put_zstd(calls.zstd, memory, used, data, start, end, limit)
    if codec == _NONE:
        return _put_plain(memory, used, data, start, end)
    return Outcome(UNUSUAL, used, 0)


@kernel
def put_usual(
    calls: Calls,
    memory: Bytes,
    used: int,
    data: Bytes,
    batches: Compressed,
    first: int,
    budget: int,
    limit: int,
    edges: npt.NDArray[np.int64],
) -> tuple[int, Outcome]:
    """(batch, outcome): how far it went from batch `first` on, and why not further; `edges` are filled in."""
    batch = first
    while batch < batches.position.size and (used < budget or batch == 0):
        if batches.record_count[batch]:  # else whatever bytes are there, a broker does not look at them
            start, end = batches.position[batch] + HEADER_SIZE, batches.position[batch] + batches.size[batch]
            codec = batches.attributes[batch] & CODEC_MASK
            found = _put(calls, memory, used, data, start, end, codec, limit)
            if found.status != DONE:
                return batch, found
            used = found.used
        batch += 1
        edges[batch] = used
    return batch, Outcome(DONE, used, 0)


def _into_arena(
    arena: Arena, data: Bytes, headers: HeaderColumns, limit: int, budget: int, source: str, origin: int
) -> Payloads:
    batches = Compressed(headers.position, headers.size, headers.attributes, headers.record_count)
    calls = Calls(lz4_address(), zstd_calls())
    problems: list[PayloadProblem] = []
    edges = np.zeros(headers.rows + 1, dtype=np.int64)
    batch, status = 0, UNUSUAL
    while status != DONE:
        batch, (status, arena.used, room) = put_usual(
            calls, arena.memory, arena.used, data, batches, batch, budget, limit, edges
        )
        if status == NEEDS_ROOM:
            arena.reserve(room)
        elif status == UNUSUAL:
            problems += _put_unusual(arena, data, headers, batch, limit, source, origin)
            batch += 1
            edges[batch] = arena.used
    return Payloads(
        arena=arena.content, start=edges[:batch], end=edges[1 : batch + 1], problems=tuple(problems)
    )


def _put_unusual(
    arena: Arena, data: Bytes, headers: HeaderColumns, batch: int, limit: int, source: str, origin: int
) -> Iterator[PayloadProblem]:
    """One batch the pure way; its problem, if it has one."""
    position, size = int(headers.position[batch]), int(headers.size[batch])
    payload = memoryview(data.data)[position + HEADER_SIZE : position + size]
    codec, place = int(headers.attributes[batch]) & CODEC_MASK, origin + position + HEADER_SIZE
    try:
        arena.put(decompress(codec, payload, limit=limit, source=source, position=place))
    except CorruptData as error:
        yield PayloadProblem(batch=batch, error=error)
