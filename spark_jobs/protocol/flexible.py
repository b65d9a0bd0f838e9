"""Reading and writing the fields of coordinator records: plain and flexible encodings (facts §1.12)."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from struct import Struct
from typing import TypeVar

from spark_jobs.protocol.errors import CorruptCoordinatorRecord

INT8, INT16, INT32, INT64 = Struct(">b"), Struct(">h"), Struct(">i"), Struct(">q")
MAX_UNSIGNED_VARINT_BYTES = 5

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class TaggedField:
    """One optional field of a flexible struct, its payload unread."""

    tag: int
    data: bytes


class FieldReader:
    """A cursor over one key or value; bytes that do not fit end in `CorruptCoordinatorRecord`."""

    __slots__ = ("_data", "_position", "_source")

    def __init__(self, data: bytes, *, source: str = "<bytes>") -> None:
        self._data, self._position, self._source = bytes(data), 0, source

    def corrupt(self, expected: object, found: object) -> CorruptCoordinatorRecord:
        return CorruptCoordinatorRecord(
            source=self._source, position=self._position, expected=expected, found=found
        )

    @property
    def remaining(self) -> int:
        return len(self._data) - self._position

    def take(self, size: int) -> bytes:
        if not 0 <= size <= self.remaining:
            raise self.corrupt(f"{size} bytes", f"{self.remaining} left")
        self._position += size
        return self._data[self._position - size : self._position]

    def int8(self) -> int:
        return self._fixed(INT8)

    def int16(self) -> int:
        return self._fixed(INT16)

    def int32(self) -> int:
        return self._fixed(INT32)

    def int64(self) -> int:
        return self._fixed(INT64)

    def unsigned_varint(self) -> int:
        """LEB128 of at most five bytes that fit 32 bits."""
        value = 0
        for index in range(MAX_UNSIGNED_VARINT_BYTES):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << (7 * index)
            if byte < 0x80:
                break
        else:
            raise self.corrupt("an unsigned varint of at most 5 bytes", "a sixth byte announced")
        if value > 0xFFFF_FFFF:
            raise self.corrupt("an unsigned varint of 32 bits", value)
        return value

    def string(self) -> str | None:
        """int16 length and UTF-8; null is None, which differs from the empty string."""
        length = self.int16()
        return None if length == -1 else self._text(length)

    def compact_string(self) -> str | None:
        length = self.unsigned_varint() - 1
        return None if length == -1 else self._text(length)

    def required(self, text: str | None) -> str:
        """`text` where the schema allows no null."""
        if text is None:
            raise self.corrupt("a string", "null")
        return text

    def array_length(self) -> int | None:
        """Elements announced, bounded by the bytes left so that no claim costs memory; None is null."""
        return self._bounded(self.int32())

    def compact_array_length(self) -> int | None:
        return self._bounded(self.unsigned_varint() - 1)

    def tagged_fields(self) -> tuple[TaggedField, ...]:
        """The tag section that ends a flexible struct; tags must ascend."""
        fields: list[TaggedField] = []
        for _ in range(self.unsigned_varint()):
            tag = self.unsigned_varint()
            if fields and tag <= fields[-1].tag:
                raise self.corrupt(f"a tag above {fields[-1].tag}", tag)
            fields.append(TaggedField(tag=tag, data=self.take(self.unsigned_varint())))
        return tuple(fields)

    def end(self) -> None:
        """Every byte is read."""
        if self.remaining:
            raise self.corrupt("the end", f"{self.remaining} more bytes")

    def _fixed(self, layout: Struct) -> int:
        (value,) = layout.unpack(self.take(layout.size))
        return int(value)

    def _text(self, length: int) -> str:
        raw = self.take(length)
        try:
            return raw.decode()
        except UnicodeDecodeError:
            raise self.corrupt("UTF-8", raw[:20].hex()) from None

    def _bounded(self, length: int) -> int | None:
        if length == -1:
            return None
        if not 0 <= length <= self.remaining:
            raise self.corrupt("an array that fits", f"{length} elements in {self.remaining} bytes")
        return length


def write_unsigned_varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def write_string(text: str | None) -> bytes:
    if text is None:
        return INT16.pack(-1)
    raw = text.encode()
    return INT16.pack(len(raw)) + raw


def write_compact_string(text: str | None) -> bytes:
    if text is None:
        return write_unsigned_varint(0)
    raw = text.encode()
    return write_unsigned_varint(len(raw) + 1) + raw


def write_array(items: Iterable[T] | None, write_item: Callable[[T], bytes]) -> bytes:
    if items is None:
        return INT32.pack(-1)
    written = [write_item(item) for item in items]
    return INT32.pack(len(written)) + b"".join(written)


def write_compact_array(items: Iterable[T] | None, write_item: Callable[[T], bytes]) -> bytes:
    if items is None:
        return write_unsigned_varint(0)
    written = [write_item(item) for item in items]
    return write_unsigned_varint(len(written) + 1) + b"".join(written)


def write_tagged_fields(fields: Iterable[TaggedField]) -> bytes:
    """The tag section for `fields`, in ascending order of their tags."""
    ordered = sorted(fields, key=lambda field: field.tag)
    return write_unsigned_varint(len(ordered)) + b"".join(_write_tagged_field(field) for field in ordered)


def _write_tagged_field(field: TaggedField) -> bytes:
    return write_unsigned_varint(field.tag) + write_unsigned_varint(len(field.data)) + field.data
