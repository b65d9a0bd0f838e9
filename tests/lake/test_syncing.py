"""A file that is written without `fsync` is complete, and `make_durable` makes it durable."""

from pathlib import Path

import pytest

from spark_jobs.lake.file_store import LARGE_BYTES, FileStore


@pytest.mark.parametrize("size", [0, 10, LARGE_BYTES + 1])
def test_objects_that_are_not_durable_yet_can_be_read_and_made_durable(tmp_path: Path, size: int) -> None:
    store, data = FileStore(str(tmp_path / "lake")), bytes(size)
    made = store.scratch() / "made"
    made.write_bytes(data)
    store.adopt(made, "runs/adopted", durable=False)
    store.put("runs/put", data, durable=False)
    store.make_durable(["runs/adopted", "runs/put"])
    assert [store.read(key) for key in ("runs/adopted", "runs/put")] == [data, data]
    assert not made.exists()


def test_making_nothing_durable_does_nothing(tmp_path: Path) -> None:
    FileStore(str(tmp_path)).make_durable([])
