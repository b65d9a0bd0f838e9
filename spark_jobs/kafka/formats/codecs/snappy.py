"""snappy: blocks in the xerial framing of the Java client, or one bare block of others (facts §1.7)."""

from struct import Struct

import cramjam

from spark_jobs.kafka.formats.limits import OutputLimit

_MAGIC = bytes.fromhex("82534e4150505900")
_HEADER = Struct(">8sii")  # magic, version, oldest compatible version
_VERSION = 1
_BLOCK_LENGTH = Struct(">i")
_MAGIC_AS_LENGTH = _BLOCK_LENGTH.unpack_from(_MAGIC)[0]
_BLOCK_SIZE = 32 * 1024
_MOST_PER_BYTE = 22
"""Three bytes encode at most 64, so a block that claims more is refused before memory is allocated."""


def decompress(data: memoryview, bounds: OutputLimit) -> bytes:
    """Framed blocks if the framing's header is in front, else one block."""
    if len(data) < _HEADER.size or data[: len(_MAGIC)] != _MAGIC:
        return _read_block(data, 0, bounds, 0)
    out, total, position = [], 0, _HEADER.size  # Java's reader checks the version of later headers only
    while len(data) - position >= _BLOCK_LENGTH.size:
        (length,) = _BLOCK_LENGTH.unpack_from(data, position)
        if length == _MAGIC_AS_LENGTH:  # streams may be concatenated, each with its header
            position = _after_header(data, position, bounds)
            continue
        position += _BLOCK_LENGTH.size
        if not 0 <= length <= len(data) - position:
            raise bounds.corrupt(
                f"a snappy block of {length} bytes", f"{len(data) - position} left", position
            )
        block = _read_block(data[position : position + length], position, bounds, total)
        out.append(block)
        total += len(block)
        position += length
    return b"".join(out)


def _after_header(data: memoryview, position: int, bounds: OutputLimit) -> int:
    if len(data) - position < _HEADER.size:
        raise bounds.corrupt("a snappy header", f"{len(data) - position} bytes", position)
    magic, version, _ = _HEADER.unpack_from(data, position)
    if magic != _MAGIC or version < _VERSION:
        raise bounds.corrupt(f"a snappy header of version {_VERSION}", f"{magic.hex()} {version}", position)
    return position + _HEADER.size


def _read_block(block: memoryview, position: int, bounds: OutputLimit, total: int) -> bytes:
    try:
        size = cramjam.snappy.decompress_raw_len(block)
        if size > len(block) * _MOST_PER_BYTE:
            raise bounds.corrupt(
                f"at most {len(block) * _MOST_PER_BYTE} bytes of a snappy block", size, position
            )
        bounds.check(total + size)
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise bounds.corrupt("a snappy block", error, position) from None


def compress(data: bytes) -> bytes:
    """Blocks of 32 KiB in the framing."""
    blocks = [_HEADER.pack(_MAGIC, _VERSION, _VERSION)]
    for start in range(0, len(data), _BLOCK_SIZE):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + _BLOCK_SIZE]))
        blocks += (_BLOCK_LENGTH.pack(len(block)), block)
    return b"".join(blocks)
