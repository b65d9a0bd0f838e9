"""Avro object container files, changed record by record; everything that is not changed stays as it is.

Manifests carry what engines have written, with fields that no library of ours may know. So a file is decoded
by the schema in its own header and encoded by the same one. A value of a union keeps its branch.
"""

import json
import zlib
from collections.abc import Callable
from io import BytesIO
from typing import Any

MAGIC = b"Obj\x01"
SYNC_BYTES = 16
SCHEMA, CODEC = "avro.schema", "avro.codec"

Record = dict[str, Any]
Names = dict[str, Any]
"""Types that the schema names, to be referred to."""


def rewrite_records(data: bytes, change: Callable[[Record], Record]) -> bytes:
    """The same file with each record changed; raises `ValueError` for bytes that are no such file."""
    source = BytesIO(data)
    if source.read(len(MAGIC)) != MAGIC:
        raise ValueError("not an Avro object container file")
    header = _read_map(source)
    sync = _take(source, SYNC_BYTES)
    schema, codec = json.loads(header[SCHEMA]), header.get(CODEC, b"null").decode()
    out = BytesIO()
    out.write(data[: source.tell()])
    while source.tell() < len(data):
        count = _read_long(source)
        block = BytesIO(_decompressed(_take(source, _read_long(source)), codec))
        changed, written = BytesIO(), Names()
        for _ in range(count):
            _encode(schema, change(_decode(schema, block, Names())), changed, written)
        packed = _compressed(changed.getvalue(), codec)
        out.write(_long(count) + _long(len(packed)) + packed + sync)
        if _take(source, SYNC_BYTES) != sync:
            raise ValueError("a block does not end with the file's sync marker")
    return out.getvalue()


def read_records(data: bytes) -> list[Record]:
    """All records of a file."""
    found: list[Record] = []

    def note(record: Record) -> Record:
        found.append(record)
        return record

    rewrite_records(data, note)
    return found


def _decode(schema: Any, source: BytesIO, names: Names) -> Any:
    """The value as Python has it; of a union its branch and its value; numbers with a point as bytes."""
    if isinstance(schema, list):
        branch = _read_long(source)
        return branch, _decode(schema[branch], source, names)
    kind, schema = _kind(schema, names)
    if kind == "record":
        return {each["name"]: _decode(each["type"], source, names) for each in schema["fields"]}
    if kind == "array":
        return _read_blocks(source, lambda: _decode(schema["items"], source, names))
    if kind == "map":
        values = schema["values"]
        return _read_blocks(source, lambda: (_read_text(source), _decode(values, source, names)))
    return _take(source, schema["size"]) if kind == "fixed" else _READERS[kind](source)


def _encode(schema: Any, value: Any, out: BytesIO, names: Names) -> None:
    """What `_decode` gave, in bytes."""
    if isinstance(schema, list):
        branch, value = value
        out.write(_long(branch))
        return _encode(schema[branch], value, out, names)
    kind, schema = _kind(schema, names)
    if kind == "record":
        for each in schema["fields"]:
            _encode(each["type"], value[each["name"]], out, names)
    elif kind in {"array", "map"}:
        out.write(_long(len(value)) if value else b"")
        for each in value:
            if kind == "map":
                out.write(_sized(each[0].encode()))
            _encode(schema.get("items") or schema["values"], each[1] if kind == "map" else each, out, names)
        out.write(_long(0))
    else:
        out.write(value if kind == "fixed" else _WRITERS[kind](value))
    return None


def _kind(schema: Any, names: Names) -> tuple[str, Any]:
    """The type's kind and its definition; a defined type is remembered under its name."""
    if isinstance(schema, str):
        return (names[schema]["type"], names[schema]) if schema in names else (schema, schema)
    if isinstance(schema["type"], dict | list):
        return _kind(schema["type"], names)
    if "name" in schema:
        names[schema["name"]] = schema
    return schema["type"], schema


def _read_map(source: BytesIO) -> dict[str, bytes]:
    return dict(_read_blocks(source, lambda: (_read_text(source), _take(source, _read_long(source)))))


def _read_blocks(source: BytesIO, read: Callable[[], Any]) -> list[Any]:
    found: list[Any] = []
    while count := _read_long(source):
        if count < 0:  # followed by the block's size, for readers that skip it
            _read_long(source)
        found += [read() for _ in range(abs(count))]
    return found


def _read_text(source: BytesIO) -> str:
    return _take(source, _read_long(source)).decode()


def _read_long(source: BytesIO) -> int:
    """A zigzag varint."""
    value = shift = 0
    while True:
        byte = _take(source, 1)[0]
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1)


def _long(value: int) -> bytes:
    rest = (value << 1) ^ (value >> 63)
    found = bytearray()
    while rest > 0x7F:
        found.append(rest & 0x7F | 0x80)
        rest >>= 7
    found.append(rest)
    return bytes(found)


def _sized(value: bytes) -> bytes:
    return _long(len(value)) + value


def _take(source: BytesIO, size: int) -> bytes:
    found = source.read(size) if size >= 0 else b""
    if len(found) != size:
        raise ValueError("the file ends too early")
    return found


_READERS: dict[str, Callable[[BytesIO], Any]] = {
    "null": lambda _: None,
    "boolean": lambda source: _take(source, 1),
    "int": _read_long,
    "long": _read_long,
    "enum": _read_long,
    "float": lambda source: _take(source, 4),
    "double": lambda source: _take(source, 8),
    "string": _read_text,
    "bytes": lambda source: _take(source, _read_long(source)),
}
_WRITERS: dict[str, Callable[[Any], bytes]] = {
    "null": lambda _: b"",
    "boolean": bytes,
    "int": _long,
    "long": _long,
    "enum": _long,
    "float": bytes,
    "double": bytes,
    "string": lambda value: _sized(value.encode()),
    "bytes": _sized,
}


def _decompressed(data: bytes, codec: str) -> bytes:
    if codec == "deflate":
        return zlib.decompress(data, wbits=-15)
    if codec == "null":
        return data
    raise ValueError(f"compressed with {codec}, which is not supported here: deflate and null are")


def _compressed(data: bytes, codec: str) -> bytes:
    return zlib.compress(data, wbits=-15) if codec == "deflate" else data
