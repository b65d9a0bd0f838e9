"""An Avro file keeps everything but what is changed, as pyiceberg's own reader sees it."""

import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import ManifestEntry, ManifestFile, read_manifest_list

from spark_jobs.lake.iceberg.catalog import open_catalog
from spark_jobs.lake.iceberg.relocation import MAGIC, AvroRecord, read_records, rewrite_records
from tests.operations.lakes.small_lake import published_shop, settings_of

SYNC = b"0123456789abcdef"
SCHEMA = (
    b'{"type":"record","name":"r","fields":[{"name":"text","type":"string"},'
    b'{"name":"maybe","type":["null",{"type":"fixed","name":"f","size":2}]},{"name":"again","type":"f"},'
    b'{"name":"pairs","type":{"type":"map","values":"long"}},{"name":"list","type":{"type":"array","items":"int"}},'
    b'{"name":"flag","type":"boolean"},{"name":"point","type":"double"},{"name":"raw","type":"bytes"}]}'
)
RECORD = (
    b"\x04hi" + b"\x02ab" + b"cd" + b"\x02\x02k\x7f\x00"  # text; a union's second branch; f again; {"k": -64}
    b"\x03\x04\x02\x04\x00" + b"\x01" + bytes(8) + b"\x02\xff"  # a block of -2 items and 2 bytes: [1, 2]
)


def _file(codec: bytes, block: bytes) -> bytes:
    def sized(value: bytes) -> bytes:
        return _varint(len(value)) + value

    header = b"\x04" + sized(b"avro.schema") + sized(SCHEMA) + sized(b"avro.codec") + sized(codec) + b"\x00"
    return MAGIC + header + SYNC + b"\x02" + sized(block) + SYNC


def _varint(value: int) -> bytes:
    rest, found = value << 1, b""
    while rest > 127:
        found += bytes([rest & 127 | 128])
        rest >>= 7
    return found + bytes([rest])


def _deflated(data: bytes) -> bytes:
    return zlib.compress(data, wbits=-15)


@pytest.mark.parametrize("data", [_file(b"null", RECORD), _file(b"deflate", _deflated(RECORD))])
def test_every_type_is_read_and_written(data: bytes) -> None:
    expected = {
        "text": "hi",
        "maybe": (1, b"ab"),
        "again": b"cd",
        "pairs": [("k", -64)],
        "list": [1, 2],
        "flag": b"\x01",
        "point": bytes(8),
        "raw": b"\xff",
    }
    assert read_records(data) == [expected]
    longer = rewrite_records(data, lambda record: {**record, "text": "h" * 300})
    assert read_records(longer) == [{**expected, "text": "h" * 300}]


WHOLE = _file(b"null", RECORD)


@pytest.mark.parametrize("data", [b"", b"Obj\x02", *(WHOLE[:end] for end in range(4, len(WHOLE), 7))])
def test_a_file_that_is_cut_short_is_damage(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"not an Avro|ends too early"):
        read_records(data)


def test_an_unknown_codec_is_refused() -> None:
    with pytest.raises(ValueError, match="zstandard"):
        read_records(_file(b"zstandard", RECORD))


def _changed(record: AvroRecord) -> AvroRecord:
    if "manifest_path" in record:
        return {**record, "manifest_path": record["manifest_path"] + "x"}
    file = record["data_file"]
    return {**record, "data_file": {**file, "file_path": file["file_path"] + "x"}}


@pytest.mark.usefixtures("great_expectations")
def test_icebergs_files_keep_all_but_the_addresses(tmp_path: Path) -> None:
    settings, io = settings_of(published_shop(tmp_path, days=2)), PyArrowFileIO()
    with open_catalog(settings) as catalog:
        table = catalog.load_table(("topics", "plain"))
    changed = tmp_path / "changed.avro"
    for manifest in table.inspect.all_manifests().to_pylist():
        original = Path(manifest["path"])
        changed.write_bytes(rewrite_records(original.read_bytes(), _changed))
        before, after = (_entries(io, path, manifest) for path in (original, changed))
        assert [path + "x" for path, _ in before] == [path for path, _ in after]
        assert [rest for _, rest in before] == [rest for _, rest in after]
    snapshot = table.current_snapshot()
    assert snapshot is not None
    original = Path(snapshot.manifest_list)
    changed.write_bytes(rewrite_records(original.read_bytes(), _changed))
    lists = [list(read_manifest_list(io.new_input(str(path)))) for path in (original, changed)]
    assert [each.manifest_path + "x" for each in lists[0]] == [each.manifest_path for each in lists[1]]
    assert [each.partitions for each in lists[0]] == [each.partitions for each in lists[1]]


def _entries(io: PyArrowFileIO, path: Path, manifest: dict[str, Any]) -> list[tuple[str, str]]:
    """Address, and everything else as text."""
    file = ManifestFile.from_args(
        manifest_path=str(path),
        manifest_length=path.stat().st_size,
        partition_spec_id=0,
        content=0,
        sequence_number=1,
        min_sequence_number=1,
        added_snapshot_id=manifest["added_snapshot_id"],
    )
    entries = file.fetch_manifest_entry(io, discard_deleted=False)
    return [(each.data_file.file_path, _rest(each)) for each in entries]


def _rest(entry: ManifestEntry) -> str:
    file, path = entry.data_file, entry.data_file.file_path
    values = [file[position] for position in range(len(file))]
    plain = [dict(value) if isinstance(value, Mapping) else value for value in values]
    return str([entry.status, entry.snapshot_id, entry.sequence_number, *plain]).replace(path, "")
