"""Batches of few bytes that claim to hold, or become, more than a machine has; sealed as by a client."""

import gzip
from dataclasses import replace
from struct import Struct

import cramjam

from spark_jobs.kafka.formats.batch_builder import build_batch, seal
from spark_jobs.kafka.formats.codecs import lz4
from spark_jobs.kafka.formats.primitives import write_varint
from spark_jobs.kafka.formats.record_batch import HEADER_SIZE, Codec, read_header
from spark_jobs.kafka.formats.records import Record
from tests.pipeline.batches import NOON

MIB, GIB = 1 << 20, 1 << 30
_WORD = Struct("<I")


def sealed(payload: bytes, codec: Codec, *, pid: int, records: int = 1) -> bytes:
    """A batch around `payload` that says it holds so many records."""
    built = build_batch(
        records=[Record(offset_delta=0, value=b"v")],
        base_timestamp=NOON,
        producer_id=pid,
        producer_epoch=0,
        base_sequence=0,
        codec=codec,
    )
    header = read_header(built[:HEADER_SIZE])
    return seal(replace(header, record_count=records, last_offset_delta=records - 1), payload)


def gzip_bomb(size: int) -> bytes:
    """Zeros: one byte expands to a thousand."""
    member = gzip.compress(bytes(64 * MIB), compresslevel=9)
    return member * (size // (64 * MIB))


def snappy_claim(size: int) -> bytes:
    """One block whose first bytes say that it becomes `size` bytes; a few follow."""
    claim = bytearray()
    while size:
        claim.append(size & 0x7F | (0x80 if size >> 7 else 0))
        size >>= 7
    return bytes(claim) + b"\x00v" + bytes(50)


def snappy_bomb(size: int) -> bytes:
    """Framed blocks that really become `size` bytes."""
    block = bytes(cramjam.snappy.compress_raw(bytes(MIB)))
    framed = len(block).to_bytes(4, "big") + block
    return bytes.fromhex("82534e4150505900") + bytes((0, 0, 0, 1)) * 2 + framed * (size // MIB)


def lz4_bomb(size: int) -> bytes:
    """A frame of blocks of 4 MiB: one byte expands to 255."""
    descriptor = bytes.fromhex("6070")
    block = bytes(cramjam.lz4.compress_block(bytes(4 * MIB), store_size=False))
    blocks = (_WORD.pack(len(block)) + block) * (size // (4 * MIB))
    return (
        bytes.fromhex("04224d18")
        + descriptor
        + bytes((lz4._descriptor_check(descriptor),))
        + blocks
        + bytes(4)
    )


def zstd_bomb(size: int) -> bytes:
    """A frame of blocks that say "128 KiB of this byte" in four bytes."""
    size_of_block, repeats = 128 * 1024, size // (128 * 1024)
    window = bytes((0x00, (17 - 10) << 3))  # no content size, a window of 128 KiB
    block = (size_of_block << 3 | 1 << 1).to_bytes(3, "little") + b"\0"
    last = (size_of_block << 3 | 1 << 1 | 1).to_bytes(3, "little") + b"\0"
    return bytes.fromhex("28b52ffd") + window + block * (repeats - 1) + last


def zstd_claim(size: int) -> bytes:
    """A frame whose header says that it becomes `size` bytes; its one block is small."""
    header = bytes((0xC0, (17 - 10) << 3)) + size.to_bytes(8, "little")
    return bytes.fromhex("28b52ffd") + header + (4 << 3 | 1 << 1 | 1).to_bytes(3, "little") + b"\0"


def one_record(body: bytes) -> bytes:
    """A record with that body, its length in front."""
    return write_varint(len(body)) + body


def many_headers(count: int) -> bytes:
    """A record that says it has `count` headers, and has bytes for none."""
    return one_record(bytes((0,)) + write_varint(0) * 2 + write_varint(-1) * 2 + write_varint(count))


def endless_varint() -> bytes:
    """A length whose every byte says that another follows."""
    return b"\xff" * 100


def bombs() -> dict[str, bytes]:
    """Every kind as a batch, by name."""
    payloads = {
        "gzip": (gzip_bomb(2 * GIB), Codec.GZIP, 1),
        "snappy claim": (snappy_claim(4 * GIB - 1), Codec.SNAPPY, 1),
        "snappy": (snappy_bomb(GIB), Codec.SNAPPY, 1),
        "lz4": (lz4_bomb(2 * GIB), Codec.LZ4, 1),
        "zstd": (zstd_bomb(100 * GIB), Codec.ZSTD, 1),
        "zstd claim": (zstd_claim(100 * GIB), Codec.ZSTD, 1),
        "records": (one_record(bytes(6)), Codec.NONE, 2**31 - 1),
        "headers": (many_headers(2**31 - 1), Codec.NONE, 1),
        "varint": (endless_varint(), Codec.NONE, 1),
    }
    return {
        name: sealed(payload, codec, pid=pid, records=records)
        for pid, (name, (payload, codec, records)) in enumerate(payloads.items(), start=100)
    }
