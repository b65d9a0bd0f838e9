"""xxHash32 with seed 0: the checksum inside lz4 frames."""

from struct import Struct

_P1, _P2, _P3, _P4, _P5 = 2654435761, 2246822519, 3266489917, 668265263, 374761393
_MASK = 0xFFFFFFFF
_STRIPE = Struct("<4I")
_WORD = Struct("<I")


def xxhash32(data: bytes | memoryview) -> int:
    """Hash of `data` as an unsigned 32-bit number."""
    size = len(data)
    striped = size - size % _STRIPE.size
    value = _hash_stripes(data, striped) if striped else _P5
    value = (value + size) & _MASK
    words_end = size - size % _WORD.size
    for position in range(striped, words_end, _WORD.size):
        value = _rotate((value + _WORD.unpack_from(data, position)[0] * _P3) & _MASK, 17) * _P4 & _MASK
    for byte in data[words_end:]:
        value = _rotate((value + byte * _P5) & _MASK, 11) * _P1 & _MASK
    return _avalanche(value)


def _hash_stripes(data: bytes | memoryview, end: int) -> int:
    a, b, c, d = (_P1 + _P2) & _MASK, _P2, 0, -_P1 & _MASK
    for w, x, y, z in _STRIPE.iter_unpack(data[:end]):
        a = _round(a, w)
        b = _round(b, x)
        c = _round(c, y)
        d = _round(d, z)
    return (_rotate(a, 1) + _rotate(b, 7) + _rotate(c, 12) + _rotate(d, 18)) & _MASK


def _round(lane: int, word: int) -> int:
    return _rotate((lane + word * _P2) & _MASK, 13) * _P1 & _MASK


def _rotate(value: int, bits: int) -> int:
    return (value << bits | value >> (32 - bits)) & _MASK


def _avalanche(value: int) -> int:
    value = (value ^ value >> 15) * _P2 & _MASK
    value = (value ^ value >> 13) * _P3 & _MASK
    return value ^ value >> 16
