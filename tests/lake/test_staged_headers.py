"""Headers of staged objects: what is written of an object's bytes, and what is believed of a file."""

import shutil
from dataclasses import replace
from datetime import date
from pathlib import Path

import numpy as np
import pytest

from spark_jobs.kafka.formats.record_batch import read_header, write_header
from spark_jobs.kernels.columns import HeaderColumns, concatenate
from spark_jobs.kernels.scan import scan_headers
from spark_jobs.lake import staged_headers
from spark_jobs.lake.file_store import FileStore
from spark_jobs.lake.staged_headers import (
    HeaderFile,
    abandoned_headers,
    clear_headers,
    headers_file,
    headers_folder,
    read_headers,
)
from tests.pipeline.index.objects import batch, marker, plain_object

SHA256, OTHER = "ab" * 32, "cd" * 32
FOLDER = headers_folder(date(2024, 5, 1))
LARGE = b"".join(batch(number, value=bytes([number]) * 2000) for number in range(200))


@pytest.fixture
def lake(tmp_path: Path) -> FileStore:
    return FileStore(str(tmp_path))


def _write(lake: FileStore, data: bytes, piece: int = 10_000, sha256: str = SHA256) -> bool:
    with HeaderFile(lake) as file:
        for start in range(0, len(data), piece):
            file.add(data[start : start + piece])
        return file.finish(FOLDER, sha256=sha256, size=len(data))


def _read(lake: FileStore, data: bytes, start: int = 0, stop: int | None = None) -> list[HeaderColumns]:
    end = len(data) if stop is None else stop
    return list(read_headers(lake, FOLDER, sha256=SHA256, size=len(data), start=start, stop=end))


def _positions(lake: FileStore, data: bytes, start: int = 0, stop: int | None = None) -> list[int]:
    return [position for part in _read(lake, data, start, stop) for position in part.position.tolist()]


def _path(lake: FileStore, sha256: str = SHA256) -> Path:
    return Path(lake.url, FOLDER, headers_file(sha256))


@pytest.mark.parametrize("piece", [1, 61, 100, 5000, 10**6])
def test_rows_are_those_of_a_scan_of_the_whole_object(lake: FileStore, piece: int) -> None:
    data = LARGE[: len(LARGE) // 8] + marker(9)
    assert _write(lake, data, piece)
    expected, found = scan_headers(data).columns, concatenate(_read(lake, data))
    for name in HeaderColumns._fields:
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), name)
        assert getattr(found, name).dtype == getattr(expected, name).dtype


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staged_headers, "ROWS_PER_BLOCK", 7)


@pytest.mark.usefixtures("small_blocks")
def test_the_bytes_of_the_file_do_not_depend_on_pieces(lake: FileStore) -> None:
    found = set()
    for piece in (100, 3333, 10**6):
        assert _write(lake, LARGE, piece)
        found.add(_path(lake).read_bytes())
    assert len(found) == 1


@pytest.mark.usefixtures("small_blocks")
def test_a_part_of_an_object_gets_its_own_headers(lake: FileStore) -> None:
    _write(lake, LARGE)
    positions = scan_headers(LARGE).columns.position.tolist()
    assert _positions(lake, LARGE, positions[20], positions[40]) == positions[20:40]
    assert _positions(lake, LARGE, positions[20], positions[40] - 1) == positions[20:40]
    assert _positions(lake, LARGE, positions[199]) == positions[199:]


def test_where_no_batch_begins_there_are_no_headers(lake: FileStore) -> None:
    _write(lake, LARGE)
    assert _positions(lake, LARGE, 1) == []
    assert _positions(lake, LARGE, len(LARGE)) == []


@pytest.mark.parametrize(
    "damage",
    [
        batch(0, value=b"flipped")[:-1] + b"\xff",
        b"no batch at all, whatever its length may seem to be",
        bytes(100),
        batch(0)[:-3],
        b"",
        write_header(replace(read_header(batch(0)), batch_length=2**31 - 13)),
        write_header(replace(read_header(batch(0)), magic=3)) + batch(0)[61:],
    ],
)
def test_headers_end_before_the_first_byte_that_is_no_intact_batch(lake: FileStore, damage: bytes) -> None:
    data = LARGE[: 3 * len(batch(0, value=bytes(2000)))]
    assert _write(lake, data + damage)
    assert len(_positions(lake, data + damage)) == 3


def test_headers_end_before_a_batch_that_is_too_large_to_hold(
    lake: FileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staged_headers, "LARGEST_HELD", 5000)
    data = batch(0, value=bytes(4000)) + batch(1, value=bytes(6000)) + batch(2)
    assert _write(lake, data, 100)
    assert len(_positions(lake, data)) == 1


@pytest.mark.parametrize("data", [b"", b"no batch", plain_object(100)])
def test_an_object_without_batches_or_with_small_ones_has_no_file(lake: FileStore, data: bytes) -> None:
    assert not _write(lake, data)
    assert not _path(lake).exists()
    assert list(lake.scratch().iterdir()) == []


@pytest.mark.usefixtures("small_blocks")
def test_a_file_that_was_truncated_or_changed_gives_nothing_wrong(lake: FileStore) -> None:
    _write(lake, LARGE)
    whole, expected = _path(lake).read_bytes(), scan_headers(LARGE).columns
    for place in range(0, len(whole), 97):
        changed = bytearray(whole)
        changed[place] ^= 0x55
        for damaged in (whole[:place], bytes(changed)):
            _path(lake).write_bytes(damaged)
            found = _read(lake, LARGE)
            if found:
                rows = concatenate(found)
                for name in HeaderColumns._fields:
                    np.testing.assert_array_equal(
                        getattr(rows, name), getattr(expected, name)[: rows.rows], f"{name}, byte {place}"
                    )


def test_the_file_of_another_object_is_not_used(lake: FileStore) -> None:
    _write(lake, LARGE, sha256=OTHER)
    shutil.copy(_path(lake, OTHER), _path(lake))
    assert _read(lake, LARGE) == []


def test_a_missing_file_gives_nothing(lake: FileStore) -> None:
    assert _read(lake, LARGE) == []


def test_files_are_removed_by_their_date(lake: FileStore) -> None:
    _write(lake, LARGE)
    lake.put("staging/2024-05-01/manifest-1.jsonl", b"")
    assert [each.key for each in abandoned_headers(lake, date(2024, 4, 30))] == []
    assert [each.key for each in abandoned_headers(lake, date(2024, 5, 1))] == [
        f"{FOLDER}/{headers_file(SHA256)}"
    ]
    clear_headers(lake, date(2024, 5, 1))
    assert [each.key for each in lake.list()] == ["staging/2024-05-01/manifest-1.jsonl"]
