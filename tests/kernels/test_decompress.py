"""lz4 and zstd by compiled code and by the pure readers: the same result, or it is left to the latter."""

from concurrent.futures import ThreadPoolExecutor
from random import Random

import cramjam
import numpy as np
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.kafka.errors import CorruptData
from spark_jobs.kafka.formats.batch_builder import build_batch, seal
from spark_jobs.kafka.formats.codecs.lz4 import xxhash32
from spark_jobs.kafka.formats.compression import DEFAULT_LIMIT, compress, decompress
from spark_jobs.kafka.formats.record_batch import HEADER_SIZE, Codec, read_header
from spark_jobs.kafka.formats.records import Record
from spark_jobs.kernels.codecs import (
    DONE,
    NEEDS_ROOM,
    Calls,
    Compressed,
    ZstdCalls,
    decompress_batches,
    lz4_address,
    put_usual,
    zstd_calls,
    zstd_library,
)
from spark_jobs.kernels.memory import as_bytes
from spark_jobs.kernels.scan import scan_headers

TEXT = b"an order of three apples and a pear, " * 400
ROOM = 1 << 19
CODECS = (Codec.LZ4, Codec.ZSTD)


def one_batch(payload: bytes, codec: Codec) -> Compressed:
    return Compressed(
        position=np.array([-HEADER_SIZE], dtype=np.int64),
        size=np.array([HEADER_SIZE + len(payload)], dtype=np.int64),
        attributes=np.array([codec], dtype=np.int16),
        record_count=np.array([1], dtype=np.int32),
    )


def calls() -> Calls:
    return Calls(lz4_address(), zstd_calls())


def by_kernel(codec: Codec, data: bytes, *, room: int = ROOM, limit: int = DEFAULT_LIMIT) -> bytes | None:
    """In memory that was used before: nothing of it may come out."""
    memory, edges = np.full(room, 0xA5, dtype=np.uint8), np.zeros(2, dtype=np.int64)
    batch = one_batch(data, codec)
    done, found = put_usual(calls(), memory, 0, as_bytes(data), batch, 0, room, limit, edges)
    assert (done == 1) == (found.status == DONE)
    return bytes(memory[: found.used]) if found.status == DONE else None


def by_pure_reader(codec: Codec, data: bytes) -> bytes | None:
    try:
        return decompress(codec, data)
    except CorruptData:
        return None


def lz4_frame(*blocks: bytes, stored: bool = False, content_checksum: bool = False) -> bytes:
    descriptor = bytes((0x64 if content_checksum else 0x60, 0x40))
    start = bytes.fromhex("04224d18") + descriptor + bytes((xxhash32(descriptor) >> 8 & 0xFF,))
    flag = 0x80000000 if stored else 0
    framed = b"".join((len(block) | flag).to_bytes(4, "little") + block for block in blocks)
    return start + framed + bytes(8 if content_checksum else 4)


texts = st.lists(
    st.one_of(
        st.sampled_from([b'{"order_id":"', b'","status":"paid"', b"a", b"ab" * 20, bytes(300), TEXT[:90]]),
        st.binary(max_size=40),
    ),
    max_size=60,
).map(b"".join)
"""With matches near and far, short and long."""


def test_the_libraries_are_there() -> None:
    assert zstd_library() is not None
    assert lz4_address()


@pytest.mark.parametrize("codec", CODECS)
@given(content=texts)
def test_a_payload_becomes_what_it_was(codec: Codec, content: bytes) -> None:
    assert by_kernel(codec, compress(codec, content)) == content


@given(content=texts)
def test_other_writers_frames_become_what_they_were(content: bytes) -> None:
    assert by_kernel(Codec.ZSTD, bytes(cramjam.zstd.compress(content))) == content
    blocks = [bytes(cramjam.lz4.compress_block(content, mode="high_compression", store_size=False))]
    assert by_kernel(Codec.LZ4, lz4_frame(*blocks if content else (), content_checksum=True)) == content
    assert by_kernel(Codec.LZ4, lz4_frame(*[content] if content else (), stored=True)) == content


@pytest.mark.parametrize("codec", CODECS)
@given(
    content=texts.filter(bool),
    place=st.integers(min_value=0, max_value=1 << 16),
    byte=st.integers(min_value=0, max_value=255),
    cut=st.integers(min_value=0, max_value=3),
)
def test_a_damaged_payload_has_no_second_answer(
    codec: Codec, content: bytes, place: int, byte: int, cut: int
) -> None:
    frame = bytearray(compress(codec, content))
    frame[place % len(frame)] = byte
    damaged = bytes(frame[: len(frame) - cut])
    found = by_kernel(codec, damaged)
    assert found is None or found == by_pure_reader(codec, damaged)


@given(st.binary(min_size=1, max_size=60))
def test_whatever_an_lz4_block_is_made_of_it_has_no_second_answer(block: bytes) -> None:
    frame = lz4_frame(block)
    found = by_kernel(Codec.LZ4, frame)
    assert found is None or found == by_pure_reader(Codec.LZ4, frame)


def sequences(*parts: tuple[bytes, int, int]) -> bytes:
    """An lz4 block of (literals, distance, length) with literals behind them; all lengths are short."""
    made = [
        bytes((len(literals) << 4 | length - 4,)) + literals + distance.to_bytes(2, "little")
        for literals, distance, length in parts
    ]
    return b"".join((*made, b"\xc0", b"the last one"))


@pytest.mark.parametrize("distance", [1, 2, 7, 8, 15, 16, 17, 40])
@pytest.mark.parametrize("length", [4, 15, 16, 17, 18])
def test_matches_of_every_distance_repeat_the_bytes_there(distance: int, length: int) -> None:
    start = bytes(range(40))
    block = sequences((start[:14], 14, 4), (start[:14], 1, 4), (start[:10], distance, length), (b"", 9, 5))
    found = by_kernel(Codec.LZ4, lz4_frame(block))
    assert found is not None
    assert found == by_pure_reader(Codec.LZ4, lz4_frame(block))


@pytest.mark.parametrize(
    "block",
    [
        pytest.param(sequences((b"abc", 4, 4)), id="before the content"),
        pytest.param(b"\xf0\xff\xff", id="a length without an end"),
        pytest.param(b"\x50abc", id="fewer literals than claimed"),
        pytest.param(b"\x1fa\x01\x00" + b"\xff" * 300 + b"\x00\x50later", id="more than a block holds"),
        pytest.param(b"\x30abc\x01\x00", id="no literals at the end"),
        pytest.param(b"\x1fa\x01\x00\xff\xff\xff\x00\x10x", id="a length too near the end"),
    ],
)
def test_a_block_that_points_outside_is_left_to_the_pure_reader(block: bytes) -> None:
    assert by_kernel(Codec.LZ4, lz4_frame(block)) is None


@pytest.mark.parametrize("length", [4, 7, 8, 15, 18])
@pytest.mark.parametrize("before", [0, 3, 14])
@pytest.mark.parametrize("after", [b"", b"the last one" * 9])
def test_a_match_of_distance_nothing_is_what_the_pure_reader_makes_of_it(
    length: int, before: int, after: bytes
) -> None:
    block = sequences((bytes(range(before)), 0, length), (b"abcdefgh", 8, 18))
    frame = lz4_frame(block, b"\x1fa\x00\x00\xff\x20\xf0" + bytes((len(after) % 255,)) + after)
    assert by_kernel(Codec.LZ4, frame) == by_pure_reader(Codec.LZ4, frame)


def zstd_block(kind: int, size: int, content: bytes, *, last: bool = False) -> bytes:
    return (size << 3 | kind << 1 | last).to_bytes(3, "little") + content


def zstd_frame(window_log: int, *blocks: bytes) -> bytes:
    return bytes.fromhex("28b52ffd") + bytes((0, window_log - 10 << 3)) + b"".join(blocks)


def far_match(window_log: int) -> bytes:
    """Small blocks, the last of which repeats the first from 20,000 bytes before; written for 256 KiB."""
    noise = Random(1).randbytes(20_000)
    settings = zstandard.ZstdCompressionParameters(window_log=18, write_content_size=0)
    stream = zstandard.ZstdCompressor(compression_params=settings).compressobj()
    parts = [noise[start : start + 500] for start in range(0, len(noise), 500)]
    blocks = [stream.compress(part) + stream.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK) for part in parts]
    frame = b"".join((*blocks, stream.compress(noise[:500]), stream.flush()))
    return frame[:5] + bytes((window_log - 10 << 3,)) + frame[6:]


REFUSED_FRAMES = {
    "a match beyond the window": far_match(10),
    "a raw block of more than 128 KiB": zstd_frame(20, zstd_block(0, 200_000, TEXT[:1] * 200_000, last=True)),
    "a repeated byte of more than 128 KiB": zstd_frame(20, zstd_block(1, 200_000, b"x", last=True)),
    "a raw block larger than the window": zstd_frame(10, zstd_block(0, 3000, TEXT[:3000], last=True)),
    "a reserved block": zstd_frame(20, zstd_block(3, 5, TEXT[:5], last=True)),
}
"""Frames that Kafka's reader refuses (docs/kafka-facts.md §1.7)."""


@pytest.mark.parametrize("frame", REFUSED_FRAMES.values(), ids=REFUSED_FRAMES)
def test_a_frame_that_kafka_refuses_is_refused_by_both_readers(frame: bytes) -> None:
    assert by_pure_reader(Codec.ZSTD, frame) is None
    assert by_kernel(Codec.ZSTD, frame) is None


def test_content_beyond_the_window_without_a_far_match_is_read() -> None:
    small = zstd_frame(10, *(zstd_block(0, 1000, TEXT[:1000], last=number == 2) for number in range(3)))
    for frame in (small, far_match(18)):
        data = sealed_batch(frame)
        found = decompress_batches(data, scan_headers(data).columns)
        assert not found.problems
        assert bytes(found.arena[found.start[0] : found.end[0]]) == by_pure_reader(Codec.ZSTD, frame)
    assert by_kernel(Codec.ZSTD, far_match(18)) is not None


def sealed_batch(payload: bytes) -> bytes:
    header = read_header(build_batch(records=[Record(value=b"")], base_timestamp=0, codec=Codec.ZSTD))
    return seal(header, payload)


def wide_window(frame: bytes) -> bytes:
    return frame[:5] + bytes((18 << 3,)) + frame[6:]


ZSTD_TEXT, LZ4_TEXT = compress(Codec.ZSTD, TEXT), compress(Codec.LZ4, TEXT)


@pytest.mark.parametrize(
    ("codec", "data"),
    [
        pytest.param(Codec.ZSTD, b"", id="nothing"),
        pytest.param(Codec.ZSTD, ZSTD_TEXT[:-1], id="torn"),
        pytest.param(Codec.ZSTD, ZSTD_TEXT * 2, id="two frames"),
        pytest.param(Codec.ZSTD, ZSTD_TEXT + b"more", id="bytes behind the frame"),
        pytest.param(Codec.ZSTD, wide_window(ZSTD_TEXT), id="a window that readers refuse"),
        pytest.param(Codec.ZSTD, compress(Codec.ZSTD, bytes(ROOM + 1)), id="more than there is room for"),
        pytest.param(Codec.ZSTD, b"no frame at all", id="no frame"),
        pytest.param(Codec.LZ4, b"", id="lz4: nothing"),
        pytest.param(Codec.LZ4, LZ4_TEXT[:-1], id="lz4: a torn end mark"),
        pytest.param(Codec.LZ4, LZ4_TEXT[:-9], id="lz4: a torn block"),
        pytest.param(Codec.LZ4, lz4_frame(content_checksum=True)[:-1], id="lz4: a torn checksum"),
        pytest.param(Codec.LZ4, LZ4_TEXT[:4] + b"\x68" + LZ4_TEXT[5:], id="lz4: with a size of the content"),
        pytest.param(Codec.LZ4, LZ4_TEXT[:6] + b"\x00" + LZ4_TEXT[7:], id="lz4: a wrong descriptor"),
        pytest.param(Codec.GZIP, compress(Codec.GZIP, TEXT), id="another codec"),
    ],
)
def test_whatever_is_unusual_is_left_to_the_pure_reader(codec: Codec, data: bytes) -> None:
    assert by_kernel(codec, data) is None


@pytest.mark.parametrize("codec", CODECS)
def test_without_its_library_a_codec_is_left_to_the_pure_reader(codec: Codec) -> None:
    memory, edges = np.zeros(ROOM, dtype=np.uint8), np.zeros(2, dtype=np.int64)
    data, none = compress(codec, TEXT), Calls(0, ZstdCalls(0, 0))
    batch = one_batch(data, codec)
    done, _ = put_usual(none, memory, 0, as_bytes(data), batch, 0, ROOM, DEFAULT_LIMIT, edges)
    assert done == 0


@pytest.mark.parametrize("codec", CODECS)
def test_a_limit_holds_although_there_is_room(codec: Codec) -> None:
    content = TEXT * 10
    assert by_kernel(codec, compress(codec, content), limit=len(content) - 1) is None
    assert by_kernel(codec, compress(codec, content), limit=len(content)) == content


@pytest.mark.parametrize("codec", CODECS)
def test_what_needs_room_says_how_much(codec: Codec) -> None:
    data = compress(codec, TEXT)
    edges = np.zeros(2, dtype=np.int64)
    batch, memory = one_batch(data, codec), np.zeros(100, dtype=np.uint8)
    _, found = put_usual(calls(), memory, 7, as_bytes(data), batch, 0, ROOM, DEFAULT_LIMIT, edges)
    assert (found.status, found.used) == (NEEDS_ROOM, 7)
    assert by_kernel(codec, data, room=found.room) == TEXT


@pytest.mark.parametrize("codec", [*CODECS, Codec.GZIP, Codec.SNAPPY, Codec.NONE])
def test_batches_that_grow_a_lot_are_put_one_after_the_other(codec: Codec) -> None:
    values = [bytes(300_000), TEXT, b"", bytes(90_000) + TEXT]
    data = b"".join(
        build_batch(records=[Record(value=value)], base_timestamp=0, codec=kind)
        for value in values
        for kind in (codec, Codec.LZ4)
    )
    found = decompress_batches(data, scan_headers(data).columns)
    contents = [bytes(found.arena[a:b]) for a, b in zip(found.start, found.end, strict=True)]
    assert not found.problems
    assert contents[::2] == contents[1::2]
    assert [len(content) > len(value) for content, value in zip(contents[::2], values, strict=True)] == [
        True
    ] * 4
    assert all(value in content for content, value in zip(contents[::2], values, strict=True))


def test_threads_do_not_disturb_one_another() -> None:
    contents = [bytes((number,)) * 5000 + TEXT for number in range(8)]
    frames = [compress(Codec.ZSTD, content) for content in contents]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda frame: by_kernel(Codec.ZSTD, frame), frames * 50)) == contents * 50
