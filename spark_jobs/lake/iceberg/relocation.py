"""Rewrites the absolute addresses in the metadata of a copied lake: JSON, Avro manifests, SQLite catalog.

Each file is replaced as a whole, so the original is not changed even if the copy consists of hard links.
Rewritten addresses are not changed again: an interrupted relocation can be repeated. Avro files are changed
record by record; schema, codec and sync marker stay the same.
"""

import gzip
import json
import shutil
import sqlite3
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import Any

from spark_jobs.lake.errors import CatalogUnfit, Damaged, understood
from spark_jobs.lake.iceberg.catalog import CATALOG_FILE
from spark_jobs.lake.layout import EXPIRY, RUNS
from spark_jobs.lake.object_store import ObjectStore

MAGIC = b"Obj\x01"
SYNC_BYTES = 16
SCHEMA, CODEC = "avro.schema", "avro.codec"

AvroRecord = dict[str, Any]
Names = dict[str, Any]
"""Types that the schema names, to be referred to."""


def rewrite_records(data: bytes, change: Callable[[AvroRecord], AvroRecord]) -> bytes:
    """The same Avro file with each record changed; raises `ValueError` for other bytes."""
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


def read_records(data: bytes) -> list[AvroRecord]:
    """All records of a file."""
    found: list[AvroRecord] = []

    def note(record: AvroRecord) -> AvroRecord:
        found.append(record)
        return record

    rewrite_records(data, note)
    return found


def _decode(schema: Any, source: BytesIO, names: Names) -> Any:
    """The value in Python; a union as branch and value; floating-point numbers as bytes."""
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
    """Writes a value from `_decode` as bytes."""
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


GZIP = b"\x1f\x8b"
DATA = 0
"""Content of a data file; others are files of deleted rows, which hold addresses themselves."""
CATALOG_KEY = CATALOG_FILE.as_posix()
METADATA = "metadata.json"
"""Part of the names of metadata files, which may have a suffix for the compression."""
LOCATIONS = ("metadata_location", "previous_metadata_location")

OnProgress = Callable[[str], None]
Rewrite = Callable[[bytes], bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """Replaces a prefix in `old` of an address by `new`; other addresses stay the same."""

    old: tuple[str, ...]
    new: str

    def address(self, address: str) -> str:
        for old in self.old:
            if address == old or address.startswith(f"{old}/"):
                return self.new + address.removeprefix(old)
        return address

    def is_outside(self, address: str) -> bool:
        """Whether an address is neither in the old lake nor in the new one."""
        return not self.address(address).startswith(f"{self.new}/")

    def everywhere(self, value: Any) -> Any:
        """A JSON value with all addresses in it rewritten."""
        if isinstance(value, dict):
            return {key: self.everywhere(each) for key, each in value.items()}
        if isinstance(value, list):
            return [self.everywhere(each) for each in value]
        return self.address(value) if isinstance(value, str) else value


def with_spellings(lake: ObjectStore, move: Move) -> Move:
    """The move with every spelling of the old location in tables: it may have been a symbolic link."""
    found = {home for home in _table_homes(lake) if home != move.new}
    return replace(move, old=tuple(sorted({*move.old, *found}, key=len, reverse=True)))


def relocate_files(lake: ObjectStore, move: Move, on_progress: OnProgress) -> int:
    """Rewrites manifests, then manifest lists, then JSON files; returns how many files changed."""
    keys = _metadata_keys(lake)
    avro = [key for key in keys if key.endswith(".avro")]
    plain = [*(key for key in keys if METADATA in key), *(found.key for found in lake.list(EXPIRY))]
    passes: tuple[tuple[list[str], Rewrite], ...] = (
        (avro, lambda data: rewrite_records(data, lambda each: _moved_entry(each, move))),
        (avro, lambda data: rewrite_records(data, lambda each: _moved_manifest(each, lake, move))),
        (plain, lambda data: _moved_json(data, move)),
    )
    work = [(key, rewrite) for keys, rewrite in passes for key in keys]
    changed = set[str]()
    for done, (key, rewrite) in enumerate(work, start=1):
        on_progress(f"relocate: {done} of {len(work)} files")
        if _replaced(lake, key, rewrite):
            changed.add(key)
    return len(changed)


def relocate_sqlite(lake: ObjectStore, move: Move) -> int:
    """Rewrites the SQLite catalog of the lake; returns how many tables it lists."""
    file = lake.local_path(CATALOG_KEY)
    if file is None or not file.exists():
        return 0
    with tempfile.TemporaryDirectory(dir=lake.scratch()) as directory:
        copy = _copied(file, Path(directory))
        rows = _moved_rows(copy, move)
        lake.adopt(copy, CATALOG_KEY)
    for left in _beside(file):
        left.unlink()
    return rows


def tables_elsewhere(lake: ObjectStore, move: Move) -> list[str]:
    """Addresses in the lake's SQLite catalog that are neither in the old location nor in the new one."""
    file = lake.local_path(CATALOG_KEY)
    if file is None or not file.exists():
        return []
    with (
        tempfile.TemporaryDirectory() as directory,
        closing(sqlite3.connect(_copied(file, Path(directory)))) as database,
        understood_database(file),
    ):
        found = [row[0] for row in database.execute("SELECT metadata_location FROM iceberg_tables")]
    return sorted(each for each in found if move.is_outside(each))


def _table_homes(lake: ObjectStore) -> Iterator[str]:
    """The lake's location as each table's metadata spells it."""
    for key in _metadata_keys(lake):
        if METADATA in key:
            place = "/" + key.rpartition("/metadata/")[0]
            location = _read_json(lake.read(key), lake.url_of(key))["location"]
            if location.endswith(place):
                yield location.removesuffix(place)


def _metadata_keys(lake: ObjectStore) -> list[str]:
    """Metadata files of tables anywhere in the lake, except in run folders."""
    return [each.key for each in lake.list() if "/metadata/" in each.key and not each.key.startswith(RUNS)]


def _replaced(lake: ObjectStore, key: str, rewrite: Rewrite) -> bool:
    before = lake.read(key)
    with understood(lake.url_of(key)):
        after = rewrite(before)
    if _content(after) == _content(before):
        return False
    lake.put(key, after)
    return True


def _content(data: bytes) -> Any:
    """The decoded content, to compare files independent of their encoding."""
    return read_records(data) if data.startswith(MAGIC) else _read_json(data, "")


def _moved_entry(record: AvroRecord, move: Move) -> AvroRecord:
    """A manifest entry with its address rewritten; other records stay the same."""
    if "data_file" not in record:
        return record
    file = record["data_file"]
    if file.get("content", DATA) != DATA:
        raise CatalogUnfit(
            f"{file['file_path']}: a file of deleted rows, written by another engine; it names data files by "
            "their addresses and cannot be relocated. Rewrite the table's data files in the original first"
        )
    return {**record, "data_file": {**file, "file_path": move.address(file["file_path"])}}


def _moved_manifest(record: AvroRecord, lake: ObjectStore, move: Move) -> AvroRecord:
    """A manifest list entry with address and current size of its manifest; other records stay the same."""
    if "manifest_path" not in record:
        return record
    path = move.address(record["manifest_path"])
    found = lake.stat(path.removeprefix(f"{move.new}/")) if path.startswith(f"{move.new}/") else None
    length = found.size if found is not None else record["manifest_length"]
    return {**record, "manifest_path": path, "manifest_length": length}


def _moved_json(data: bytes, move: Move) -> bytes:
    text = json.dumps(move.everywhere(_read_json(data, "")), separators=(",", ":")).encode()
    return gzip.compress(text, mtime=0) if data.startswith(GZIP) else text


def _read_json(data: bytes, source: str) -> Any:
    with understood(source):
        return json.loads(gzip.decompress(data) if data.startswith(GZIP) else data)


@contextmanager
def understood_database(file: Path) -> Iterator[None]:
    """Raises `Damaged` for an error of SQLite."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        advice = "restore it from a copy, or remove it and run `onceover repair`"
        raise Damaged(f"{file}: damaged, SQLite cannot read it ({error}); {advice}") from error


def _copied(file: Path, directory: Path) -> Path:
    """A copy of the database and its journal, so that SQLite can roll back an interrupted commit."""
    for each in (file, *_beside(file)):
        shutil.copyfile(each, directory / each.name)
    return directory / file.name


def _beside(file: Path) -> list[Path]:
    return [path for ending in ("-journal", "-wal", "-shm") if (path := Path(f"{file}{ending}")).exists()]


def _moved_rows(file: Path, move: Move) -> int:
    with understood_database(file), closing(sqlite3.connect(file)) as database, database:
        for column in LOCATIONS:
            found = database.execute(f"SELECT DISTINCT {column} FROM iceberg_tables").fetchall()  # noqa: S608
            pairs = [(move.address(each), each) for (each,) in found if each is not None]
            database.executemany(f"UPDATE iceberg_tables SET {column} = ? WHERE {column} = ?", pairs)  # noqa: S608
        (count,) = database.execute("SELECT count(*) FROM iceberg_tables").fetchone()
    return int(count)
