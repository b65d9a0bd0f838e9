"""Kafka's primitive encodings (facts §1.12): big-endian integers, varints, strings, arrays, tagged fields."""

from collections.abc import Callable, Mapping
from struct import Struct
from typing import TypeVar

from spark_jobs.kafka.errors import CorruptData

T = TypeVar("T")

_INT16 = Struct(">h")
_INT32 = Struct(">i")
_INT64 = Struct(">q")

MAX_VARINT_BYTES = 5
MAX_VARLONG_BYTES = 10


def to_int64(value: int) -> int:
    """`value` wrapped to 64 bits, as the sum of two Java longs is."""
    return (value + 2**63) % 2**64 - 2**63


class Reader:
    """A cursor over `data[position:end]` that checks every step and raises `error` where bytes do not fit.

    `origin` is the position of `data` in `source`. Errors name the position in `source`, or `origin` itself
    if the bytes were decompressed (`in_place=False`).
    """

    __slots__ = ("data", "end", "error", "in_place", "origin", "position", "source")

    def __init__(
        self,
        data: bytes | memoryview,
        *,
        position: int = 0,
        end: int | None = None,
        error: type[CorruptData],
        source: str = "<bytes>",
        origin: int = 0,
        in_place: bool = True,
    ) -> None:
        self.data = data
        self.position = position
        self.end = len(data) if end is None else end
        self.error, self.source = error, source
        self.origin, self.in_place = origin, in_place

    @property
    def remaining(self) -> int:
        return self.end - self.position

    def fail(self, *, expected: object, found: object) -> CorruptData:
        """The error to raise here."""
        position = self.origin + self.position if self.in_place else self.origin
        return self.error(source=self.source, position=position, expected=expected, found=found)

    def advance(self, size: int) -> int:
        """Skips `size` bytes and returns where they begin."""
        start = self.position
        if size < 0 or size > self.end - start:
            raise self.fail(expected=f"{size} bytes", found=f"{self.end - start} left")
        self.position = start + size
        return start

    def read_bytes(self, size: int) -> bytes:
        start = self.advance(size)
        return bytes(self.data[start : start + size])

    def read_int8(self) -> int:
        value = self.data[self.advance(1)]
        return value - 256 if value > 127 else value

    def read_int16(self) -> int:
        return int(_INT16.unpack_from(self.data, self.advance(2))[0])

    def read_int32(self) -> int:
        return int(_INT32.unpack_from(self.data, self.advance(4))[0])

    def read_int64(self) -> int:
        return int(_INT64.unpack_from(self.data, self.advance(8))[0])

    def read_bool(self) -> bool:
        return self.read_int8() != 0

    def read_unsigned_varint(self) -> int:
        """LEB128 of at most 5 bytes, as an unsigned 32-bit number."""
        return self._read_leb128(MAX_VARINT_BYTES) & 0xFFFFFFFF

    def read_varint(self) -> int:
        """Zigzag varint of at most 5 bytes, as a signed 32-bit number."""
        raw = self._read_leb128(MAX_VARINT_BYTES) & 0xFFFFFFFF
        return (raw >> 1) ^ -(raw & 1)

    def read_varlong(self) -> int:
        """Zigzag varint of at most 10 bytes, as a signed 64-bit number."""
        raw = self._read_leb128(MAX_VARLONG_BYTES) & 0xFFFFFFFFFFFFFFFF
        return (raw >> 1) ^ -(raw & 1)

    def _read_leb128(self, max_bytes: int) -> int:
        value = shift = 0
        for index in range(self.position, min(self.position + max_bytes, self.end)):
            byte = self.data[index]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                self.position = index + 1
                return value
            shift += 7
        raise self.fail(expected=f"a varint of at most {max_bytes} bytes", found="no last byte")

    def read_utf8(self, size: int) -> str:
        """`size` bytes of strict UTF-8."""
        raw = self.read_bytes(size)
        try:
            return raw.decode()
        except UnicodeDecodeError:
            self.position -= size
            raise self.fail(expected="UTF-8 text", found=raw[:32].hex()) from None

    def read_nullable_string(self) -> str | None:
        """int16 length, then UTF-8; -1 is null."""
        size = self.read_int16()
        return None if size < 0 else self.read_utf8(size)

    def read_string(self) -> str:
        """As `read_nullable_string`, null refused."""
        return self._not_null(self.read_nullable_string())

    def read_compact_nullable_string(self) -> str | None:
        """Unsigned varint of length + 1, then UTF-8; 0 is null."""
        size = self.read_unsigned_varint() - 1
        return None if size < 0 else self.read_utf8(size)

    def read_compact_string(self) -> str:
        """As `read_compact_nullable_string`, null refused."""
        return self._not_null(self.read_compact_nullable_string())

    def _not_null(self, value: str | None) -> str:
        if value is None:
            raise self.fail(expected="a string", found="null")
        return value

    def read_array(self, read_item: Callable[[], T]) -> tuple[T, ...] | None:
        """int32 count, then items of at least one byte each; -1 is null."""
        return self._read_items(self.read_int32(), read_item)

    def read_compact_array(self, read_item: Callable[[], T]) -> tuple[T, ...] | None:
        """Unsigned varint of count + 1, then items of at least one byte each; 0 is null."""
        return self._read_items(self.read_unsigned_varint() - 1, read_item)

    def _read_items(self, count: int, read_item: Callable[[], T]) -> tuple[T, ...] | None:
        if count < 0:
            return None
        if count > self.remaining:
            raise self.fail(expected=f"{count} items", found=f"{self.remaining} bytes left")
        return tuple(read_item() for _ in range(count))

    def read_tagged_fields(self) -> dict[int, bytes]:
        """The tag section of a flexible struct: raw payload by tag, known or not."""
        count = self.read_unsigned_varint()
        if count > self.remaining:
            raise self.fail(expected=f"{count} tagged fields", found=f"{self.remaining} bytes left")
        return {
            self.read_unsigned_varint(): self.read_bytes(self.read_unsigned_varint()) for _ in range(count)
        }


def write_unsigned_varint(value: int) -> bytes:
    """LEB128 of a number from 0 up."""
    out = bytearray()
    while value > 0x7F:
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def write_varint(value: int) -> bytes:
    """Zigzag varint of a signed 32-bit number."""
    return write_unsigned_varint((value << 1) ^ (value >> 31))


def write_varlong(value: int) -> bytes:
    """Zigzag varint of a signed 64-bit number."""
    return write_unsigned_varint((value << 1) ^ (value >> 63))


def write_nullable_string(value: str | None) -> bytes:
    """int16 length, then UTF-8; null is -1."""
    if value is None:
        return _INT16.pack(-1)
    raw = value.encode()
    return _INT16.pack(len(raw)) + raw


def write_compact_nullable_string(value: str | None) -> bytes:
    """Unsigned varint of length + 1, then UTF-8; null is 0."""
    if value is None:
        return b"\0"
    raw = value.encode()
    return write_unsigned_varint(len(raw) + 1) + raw


def write_tagged_fields(fields: Mapping[int, bytes]) -> bytes:
    """The tag section of a flexible struct, tags ascending."""
    sections = [
        write_unsigned_varint(tag) + write_unsigned_varint(len(payload)) + payload
        for tag, payload in sorted(fields.items())
    ]
    return write_unsigned_varint(len(sections)) + b"".join(sections)
