"""A mapped range is complete; a range that cannot be mapped is read, and no process is killed by a signal."""

import os
from pathlib import Path

import pytest

from spark_jobs.lake import file_store as mapping
from spark_jobs.lake.errors import ObjectChanged
from spark_jobs.lake.file_store import SMALLEST_MAPPED, FileStore, can_map, map_range

SIZE = 3 * SMALLEST_MAPPED + 5
DATA = os.urandom(SIZE)

needs_mapping = pytest.mark.skipif(not can_map(), reason="this system does not bring pages in on request")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "object"
    path.write_bytes(DATA)
    return path


def _mapped(path: Path, start: int, end: int) -> memoryview | None:
    file = os.open(path, os.O_RDONLY)
    try:
        return map_range(file, start, end)
    finally:
        os.close(file)


@needs_mapping
@pytest.mark.parametrize(
    ("start", "end"), [(0, SIZE), (1, SIZE), (4096, SIZE - 1), (70_001, SMALLEST_MAPPED + 70_001)]
)
def test_a_range_is_mapped_wherever_it_begins(file: Path, start: int, end: int) -> None:
    found = _mapped(file, start, end)
    assert found is not None
    assert found == DATA[start:end]
    assert found.readonly


def test_a_few_bytes_are_rather_read(file: Path) -> None:
    assert _mapped(file, 0, SMALLEST_MAPPED - 1) is None


@pytest.mark.parametrize("left", [0, 1, SMALLEST_MAPPED, SIZE - 1])
def test_what_a_file_has_no_more_is_never_mapped(file: Path, left: int) -> None:
    os.truncate(file, left)
    assert _mapped(file, 0, SIZE) is None


@needs_mapping
def test_a_file_that_changes_during_a_look_is_noticed(file: Path) -> None:
    store = FileStore(str(file.parent))
    found = store.stat("object")
    assert found is not None
    look = store.viewed("object", 0, SIZE, version=found.version)
    assert isinstance(look.__enter__(), memoryview)
    os.utime(file, ns=(1, 1))
    with pytest.raises(ObjectChanged):
        look.__exit__(None, None, None)


def test_where_nothing_can_be_mapped_the_bytes_are_read(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mapping, "can_map", lambda: False)
    with FileStore(str(file.parent)).viewed("object", 3, SIZE) as seen:
        assert seen == DATA[3:]
        assert isinstance(seen, bytes)
