"""zstd by its library and by the pure reader: one answer, or the library leaves it to the other."""

from concurrent.futures import ThreadPoolExecutor

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.kernels.arena import Arena
from spark_jobs.kernels.short_ways import put_zstd
from spark_jobs.kernels.zstd_library import decompress_frame, zstd_library
from spark_jobs.protocol.compression import compress, decompress
from spark_jobs.protocol.errors import CorruptData
from spark_jobs.protocol.record_batch import Codec

TEXT = b"an order of three apples and a pear, " * 400
ROOM = 1 << 16


def by_library(data: bytes, room: int = ROOM) -> bytes | None:
    out = bytearray(room)
    size = decompress_frame(memoryview(data), memoryview(out))
    return None if size is None else bytes(out[:size])


def by_pure_reader(data: bytes) -> bytes | None:
    try:
        return decompress(Codec.ZSTD, data)
    except CorruptData:
        return None


def test_the_library_is_there() -> None:
    assert zstd_library() is not None


@given(st.binary(max_size=2000))
def test_a_frame_becomes_what_it_was(content: bytes) -> None:
    assert by_library(compress(Codec.ZSTD, content)) == content
    assert by_library(bytes(cramjam.zstd.compress(content))) == content


@given(position=st.integers(min_value=0, max_value=79), byte=st.integers(min_value=0, max_value=255))
def test_a_damaged_frame_has_no_second_answer(position: int, byte: int) -> None:
    frame = bytearray(compress(Codec.ZSTD, TEXT))
    frame[position % len(frame)] = byte
    found = by_library(bytes(frame))
    assert found is None or found == by_pure_reader(bytes(frame))


def wide_window(frame: bytes) -> bytes:
    return frame[:5] + bytes((18 << 3,)) + frame[6:]


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(compress(Codec.ZSTD, TEXT)[:-1], id="torn"),
        pytest.param(compress(Codec.ZSTD, TEXT) * 2, id="two frames"),
        pytest.param(compress(Codec.ZSTD, TEXT) + b"more", id="bytes behind the frame"),
        pytest.param(wide_window(compress(Codec.ZSTD, TEXT)), id="a window that readers refuse"),
        pytest.param(compress(Codec.ZSTD, bytes(ROOM + 1)), id="more than there is room for"),
        pytest.param(b"no frame at all", id="no frame"),
    ],
)
def test_whatever_is_unusual_is_left_to_the_pure_reader(data: bytes) -> None:
    assert by_library(data) is None


def test_a_limit_holds_although_the_arena_has_room() -> None:
    arena = Arena(1 << 20)
    assert not put_zstd(arena, memoryview(compress(Codec.ZSTD, TEXT)), len(TEXT) - 1)
    assert put_zstd(arena, memoryview(compress(Codec.ZSTD, TEXT)), len(TEXT))
    assert bytes(arena.content) == TEXT


def test_threads_do_not_disturb_one_another() -> None:
    contents = [bytes((number,)) * 5000 + TEXT for number in range(8)]
    frames = [compress(Codec.ZSTD, content) for content in contents]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(by_library, frames * 50)) == contents * 50
