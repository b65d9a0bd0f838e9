"""Thrift's compact protocol, as much of it as Parquet's headers and footers are written in."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

_TRUE, _FALSE = 1, 2
_I16, _I32, _I64, _BINARY, _LIST, _STRUCT = 4, 5, 6, 8, 9, 12
_SHORT_LIST = 15
"""Lists of fewer items have their size in the first byte."""


class Value(NamedTuple):
    """Something that a field can hold: the number of its type, and its bytes."""

    kind: int
    data: bytes


_BYTES = [bytes((each,)) for each in range(256)]


def _varint(number: int) -> bytes:
    if number < 0x80:
        return _BYTES[number]
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _number(kind: int, number: int) -> Value:
    return Value(kind, _varint(number << 1 if number >= 0 else (-number << 1) - 1))


def i16(number: int) -> Value:
    return _number(_I16, number)


def i32(number: int) -> Value:
    """Raises `OverflowError` for what is larger than the format can say, as the size of a page may be."""
    if not -(2**31) <= number < 2**31:
        raise OverflowError(f"{number} does not fit into 32 bits, as Parquet has it")
    return _number(_I32, number)


def i64(number: int) -> Value:
    return _number(_I64, number)


def binary(data: bytes) -> Value:
    return Value(_BINARY, _varint(len(data)) + data)


def text(string: str) -> Value:
    return binary(string.encode())


def flag(is_set: bool) -> Value:
    """As a field: its type is its value."""
    return Value(_TRUE if is_set else _FALSE, b"")


def flags(are_set: Sequence[bool]) -> Value:
    """A list of them, in which each is a byte."""
    return _list(_TRUE, [bytes((_TRUE if each else _FALSE,)) for each in are_set])


def items(values: Sequence[Value]) -> Value:
    """A list; its values, one at least, are of one type."""
    return _list(values[0].kind, [value.data for value in values])


def _list(kind: int, parts: Sequence[bytes]) -> Value:
    size = len(parts)
    head = bytes((size << 4 | kind,)) if size < _SHORT_LIST else bytes((0xF0 | kind,)) + _varint(size)
    return Value(_LIST, b"".join((head, *parts)))


def struct(fields: Mapping[int, Value | None]) -> Value:
    """Fields by their numbers, which ascend; those that are None are left out."""
    parts: list[bytes] = []
    last = 0
    for number, value in fields.items():
        if value is not None:
            parts += (_BYTES[number - last << 4 | value.kind], value.data)
            last = number
    return Value(_STRUCT, b"".join((*parts, b"\0")))


def no_structs() -> Value:
    """An empty list of structs."""
    return _list(_STRUCT, [])
