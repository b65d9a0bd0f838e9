import gzip
import tracemalloc
import zlib
from collections.abc import Callable

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.kafka.errors import BadCompression, LimitExceeded
from spark_jobs.kafka.formats.codecs.lz4 import xxhash32
from spark_jobs.kafka.formats.compression import compress, decompress
from spark_jobs.kafka.formats.record_batch import Codec

COMPRESSING = [codec for codec in Codec if codec]
ALL_CODECS = pytest.mark.parametrize("codec", COMPRESSING)
TEXT = b"exactly once, " * 10_000
NOISE = bytes((index * 7919 + index // 251) % 256 for index in range(100_000))

XERIAL_HEADER = bytes.fromhex("82534e41505059000000000100000001")
LZ4_START = bytes.fromhex("04224d186040")
ZSTD_ZERO_BLOCK = ((128 * 1024) << 3 | 2).to_bytes(3, "little") + b"\0"
"""Four bytes that stand for 128 KiB of zeros."""


def lz4_frame(descriptor: bytes, blocks: bytes, *, check: int | None = None) -> bytes:
    right = xxhash32(descriptor) >> 8 & 0xFF
    return LZ4_START[:4] + descriptor + bytes([right if check is None else check]) + blocks


def stored(block: bytes) -> bytes:
    return (len(block) | 0x80000000).to_bytes(4, "little") + block


def snappy_block(data: bytes) -> bytes:
    block = bytes(cramjam.snappy.compress_raw(data))
    return len(block).to_bytes(4, "big") + block


@given(
    st.sampled_from(Codec),
    st.binary(max_size=200) | st.sampled_from((TEXT, NOISE)),
    st.sampled_from((0, 1, 2)),
)
def test_what_was_compressed_is_decompressed(codec: Codec, data: bytes, magic: int) -> None:
    if codec is not Codec.ZSTD or magic == 2:
        assert decompress(codec, compress(codec, data, magic=magic), magic=magic) == data


@ALL_CODECS
def test_a_view_is_decompressed_like_bytes(codec: Codec) -> None:
    padded = b"xx" + compress(codec, TEXT) + b"xx"
    assert decompress(codec, memoryview(padded)[2:-2]) == TEXT


def test_every_codec_begins_as_java_writes_it() -> None:
    assert compress(Codec.GZIP, TEXT).startswith(bytes.fromhex("1f8b08000000000000ff"))
    assert compress(Codec.SNAPPY, TEXT).startswith(XERIAL_HEADER)
    assert compress(Codec.LZ4, TEXT).startswith(LZ4_START + b"\x82")
    assert compress(Codec.LZ4, TEXT, magic=0).startswith(LZ4_START + b"\x1a")
    assert compress(Codec.ZSTD, TEXT).startswith(bytes.fromhex("28b52ffd00"))


def test_other_readers_read_what_is_written() -> None:
    assert gzip.decompress(compress(Codec.GZIP, TEXT)) == TEXT
    assert bytes(cramjam.lz4.decompress(compress(Codec.LZ4, TEXT))) == TEXT
    assert bytes(cramjam.lz4.decompress(compress(Codec.LZ4, NOISE))) == NOISE
    assert bytes(cramjam.zstd.decompress(compress(Codec.ZSTD, TEXT))) == TEXT


def test_row_175_a_bare_snappy_block_is_read() -> None:
    assert decompress(Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(TEXT))) == TEXT
    assert decompress(Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(b"short"))) == b"short"


def test_row_175_concatenated_snappy_streams_are_read_as_one() -> None:
    joined = compress(Codec.SNAPPY, TEXT) + compress(Codec.SNAPPY, b"more") + snappy_block(b"!")
    assert decompress(Codec.SNAPPY, joined) == TEXT + b"more!"


def test_row_175_concatenated_gzip_members_are_read_as_one() -> None:
    members = [gzip.compress(TEXT), compress(Codec.GZIP, b""), gzip.compress(b"more")]
    assert decompress(Codec.GZIP, b"".join(members)) == TEXT + b"more"


@pytest.mark.parametrize("junk", [b"\0", bytes(100), b"\x1f\x8b", b"no gzip member at all"])
def test_what_follows_a_gzip_member_and_is_none_is_ignored(junk: bytes) -> None:
    assert decompress(Codec.GZIP, compress(Codec.GZIP, TEXT) + junk) == TEXT


def test_gzip_headers_with_name_and_time_are_read() -> None:
    named = zlib.compressobj(wbits=-15)
    body = named.compress(b"abc") + named.flush()
    trailer = zlib.crc32(b"abc").to_bytes(4, "little") + (3).to_bytes(4, "little")
    assert (
        decompress(Codec.GZIP, bytes.fromhex("1f8b0808aabbccdd0003") + b"name\0" + body + trailer) == b"abc"
    )


def test_zstd_frames_of_any_kind_are_read() -> None:
    sized = bytes(cramjam.zstd.compress(TEXT))
    skippable = bytes.fromhex("5a2a4d1803000000616263")
    assert decompress(Codec.ZSTD, sized + skippable + compress(Codec.ZSTD, b"more")) == TEXT + b"more"


@pytest.mark.parametrize("magic", [0, 1])
def test_zstd_is_unknown_to_old_formats(magic: int) -> None:
    with pytest.raises(BadCompression, match="codec 4"):
        decompress(Codec.ZSTD, compress(Codec.ZSTD, TEXT), magic=magic)


def test_lz4_of_magic_0_may_have_a_wrong_descriptor_checksum() -> None:
    wrong = compress(Codec.LZ4, TEXT, magic=0)
    assert decompress(Codec.LZ4, wrong, magic=0) == TEXT
    with pytest.raises(BadCompression, match="descriptor checksum 0x82, found 0x1a"):
        decompress(Codec.LZ4, wrong, magic=1)


def test_an_lz4_content_size_and_checksum_are_stepped_over() -> None:
    sized = lz4_frame(b"\x6c\x40" + bytes(8), stored(b"abc") + bytes(4) + b"\x01\x02\x03\x04")
    assert decompress(Codec.LZ4, sized) == b"abc"


def test_an_lz4_content_checksum_must_be_there_though_it_is_not_verified() -> None:
    with pytest.raises(BadCompression):
        decompress(Codec.LZ4, lz4_frame(b"\x64\x40", stored(b"abc") + bytes(4) + b"\x01\x02\x03"))


def test_lz4_block_checksums_are_verified() -> None:
    block = stored(b"abcdefghijklmnopq")
    good = block + xxhash32(block[4:]).to_bytes(4, "little") + bytes(4)
    assert decompress(Codec.LZ4, lz4_frame(b"\x70\x40", good)) == block[4:]
    with pytest.raises(BadCompression, match="block checksum"):
        decompress(Codec.LZ4, lz4_frame(b"\x70\x40", block + bytes(8)))


def test_what_follows_the_lz4_end_mark_is_ignored() -> None:
    assert decompress(Codec.LZ4, compress(Codec.LZ4, TEXT) + compress(Codec.LZ4, TEXT)) == TEXT


def test_lz4_blocks_of_every_size_are_read() -> None:
    for code, size in enumerate((1 << 16, 1 << 18, 1 << 20, 1 << 22), start=4):
        block = bytes(cramjam.lz4.compress_block(bytes(size), store_size=False))
        frame = lz4_frame(bytes((0x60, code << 4)), len(block).to_bytes(4, "little") + block + bytes(4))
        assert decompress(Codec.LZ4, frame) == bytes(size)


@pytest.mark.parametrize(
    ("descriptor", "why"),
    [
        (b"\x40\x40", "linked blocks"),
        (b"\x20\x40", "version 00"),
        (b"\x61\x40", "a reserved flag"),
        (b"\x60\x30", "a block size of 3"),
        (b"\x60\xc0", "a reserved bit of the block descriptor"),
    ],
)
def test_lz4_descriptors_that_kafka_refuses_are_refused(descriptor: bytes, why: str) -> None:
    with pytest.raises(BadCompression):
        decompress(Codec.LZ4, lz4_frame(descriptor, bytes(4)))


def test_an_lz4_block_beyond_its_frame_s_size_is_refused() -> None:
    with pytest.raises(BadCompression):
        decompress(Codec.LZ4, lz4_frame(b"\x60\x40", stored(bytes((1 << 16) + 1)) + bytes(4)))
    block = bytes(cramjam.lz4.compress_block(bytes((1 << 16) + 1), store_size=False))
    with pytest.raises(BadCompression):
        decompress(Codec.LZ4, lz4_frame(b"\x60\x40", len(block).to_bytes(4, "little") + block + bytes(4)))


@ALL_CODECS
def test_a_stream_that_is_cut_off_is_refused(codec: Codec) -> None:
    data = compress(codec, NOISE)
    for kept in (0, 1, 10, len(data) // 2, len(data) - 5):
        with pytest.raises(BadCompression):
            decompress(codec, data[:kept])


@pytest.mark.parametrize("version", [0, -1])
def test_the_version_of_a_snappy_framing_is_checked_in_later_headers_only(version: int) -> None:
    header = XERIAL_HEADER[:8] + version.to_bytes(4, "big", signed=True) + XERIAL_HEADER[12:]
    assert decompress(Codec.SNAPPY, header + snappy_block(TEXT)) == TEXT
    with pytest.raises(BadCompression):
        decompress(Codec.SNAPPY, XERIAL_HEADER + header + snappy_block(TEXT))


def gzip_with_flags(flags: int, fields: bytes = b"") -> bytes:
    member = compress(Codec.GZIP, TEXT)
    return member[:3] + bytes((flags,)) + member[4:10] + fields + member[10:]


def test_reserved_gzip_flags_are_ignored() -> None:
    fields = b"\x03\0abc" + b"name\0" + b"comment\0"
    with_crc = gzip_with_flags(0xE0 | 0x1E, fields)[: 10 + len(fields)]
    crc = (zlib.crc32(with_crc) & 0xFFFF).to_bytes(2, "little")
    for member in (
        gzip_with_flags(0x20),
        gzip_with_flags(0xE0),
        gzip_with_flags(0x80 | 0x1C, fields),
        gzip_with_flags(0xE0 | 0x1E, fields + crc),
    ):
        assert decompress(Codec.GZIP, member) == TEXT
        assert decompress(Codec.GZIP, compress(Codec.GZIP, b"first ") + member) == b"first " + TEXT


@pytest.mark.parametrize(
    "damaged",
    [
        pytest.param(gzip_with_flags(0x20)[:9], id="no header"),
        pytest.param(b"\x1f\x8c" + gzip_with_flags(0x20)[2:], id="another format"),
        pytest.param(gzip_with_flags(0xE0 | 0x02, b"\0\1"), id="a wrong header checksum"),
        pytest.param(gzip_with_flags(0x24)[:11], id="a torn length"),
        pytest.param(gzip_with_flags(0x28)[:10] + b"name", id="a name without an end"),
        pytest.param(gzip_with_flags(0x24, b"\xff\xff"), id="more extra bytes than there are"),
    ],
)
def test_a_damaged_header_with_reserved_gzip_flags_is_refused(damaged: bytes) -> None:
    with pytest.raises(BadCompression):
        decompress(Codec.GZIP, damaged)


def test_a_failure_names_source_and_byte() -> None:
    data = XERIAL_HEADER + snappy_block(b"abc") + b"\0\0\0\x7f"
    with pytest.raises(BadCompression) as raised:
        decompress(Codec.SNAPPY, data, source="5.log", position=700)
    assert (raised.value.source, raised.value.position) == ("5.log", 700 + len(data))


def snappy_bomb() -> bytes:
    return XERIAL_HEADER + snappy_block(bytes(1 << 20)) * 100


def gzip_bomb() -> bytes:
    return gzip.compress(bytes(100 << 20))


def gzip_bomb_of_many_members() -> bytes:
    return gzip.compress(bytes(1 << 20)) * 100


def lz4_bomb() -> bytes:
    block = bytes(cramjam.lz4.compress_block(bytes(4 << 20), store_size=False))
    return lz4_frame(b"\x60\x70", (len(block).to_bytes(4, "little") + block) * 25 + bytes(4))


def zstd_bomb() -> bytes:
    return bytes.fromhex("28b52ffd0058") + ZSTD_ZERO_BLOCK * 800 + bytes.fromhex("010000")


def zstd_bomb_of_many_frames() -> bytes:
    return (bytes.fromhex("28b52ffd0058") + ZSTD_ZERO_BLOCK + bytes.fromhex("010000")) * 800


BOMBS = [
    pytest.param(Codec.GZIP, gzip_bomb, id="gzip"),
    pytest.param(Codec.GZIP, gzip_bomb_of_many_members, id="gzip, many members"),
    pytest.param(Codec.SNAPPY, snappy_bomb, id="snappy"),
    pytest.param(Codec.LZ4, lz4_bomb, id="lz4"),
    pytest.param(Codec.ZSTD, zstd_bomb, id="zstd"),
    pytest.param(Codec.ZSTD, zstd_bomb_of_many_frames, id="zstd, many frames"),
]


@pytest.mark.parametrize(("codec", "bomb"), BOMBS)
def test_a_bomb_of_100_mib_costs_no_more_than_a_few_times_the_limit(
    codec: Codec, bomb: Callable[[], bytes]
) -> None:
    data, limit = bomb(), 2 << 20
    tracemalloc.start()
    try:
        with pytest.raises(LimitExceeded, match=str(limit)):
            decompress(codec, data, limit=limit)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4 * limit + (8 << 20)


@pytest.mark.parametrize(("codec", "bomb"), BOMBS)
def test_a_bomb_is_data_like_any_other_below_the_limit(codec: Codec, bomb: Callable[[], bytes]) -> None:
    assert len(decompress(codec, bomb())) == 100 << 20


@ALL_CODECS
def test_the_limit_itself_is_allowed(codec: Codec) -> None:
    data = compress(codec, TEXT)
    assert decompress(codec, data, limit=len(TEXT)) == TEXT
    with pytest.raises(LimitExceeded):
        decompress(codec, data, limit=len(TEXT) - 1)


def test_a_snappy_block_that_claims_more_than_its_bytes_can_hold_gets_no_memory() -> None:
    with pytest.raises(BadCompression, match="at most"):
        decompress(Codec.SNAPPY, b"\xff\xff\xff\x7f" + bytes(10))


@pytest.mark.parametrize(
    ("data", "digest"),
    [
        (b"", 0x02CC5D05),
        (b"a", 0x550D7456),
        (b"abc", 0x32D153FF),
        (b"Nobody inspects the spammish repetition", 0xE2293B2F),
    ],
)
def test_xxhash32_of_known_words(data: bytes, digest: int) -> None:
    assert xxhash32(data) == digest
