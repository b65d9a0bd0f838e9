"""A file that is written without `fsync` is complete, and `settle` makes it durable."""

from pathlib import Path

import pytest

from spark_jobs.lake.file_store import LARGE_BYTES, FileStore


@pytest.mark.parametrize("size", [0, 10, LARGE_BYTES + 1])
def test_objects_that_are_not_lasting_yet_can_be_read_and_settled(tmp_path: Path, size: int) -> None:
    store, data = FileStore(str(tmp_path / "lake")), bytes(size)
    made = store.scratch() / "made"
    made.write_bytes(data)
    store.adopt(made, "runs/adopted", lasting=False)
    store.put("runs/put", data, lasting=False)
    store.settle(["runs/adopted", "runs/put"])
    assert [store.read(key) for key in ("runs/adopted", "runs/put")] == [data, data]
    assert not made.exists()


def test_settling_nothing_does_nothing(tmp_path: Path) -> None:
    FileStore(str(tmp_path)).settle([])
