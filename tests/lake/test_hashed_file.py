"""A digest and size of what was written, found while it was written."""

import hashlib
from pathlib import Path

from spark_jobs.lake.parquet_file import HashedFile


def test_a_file_knows_its_size_and_digest_without_being_read(tmp_path: Path) -> None:
    with HashedFile(tmp_path / "file") as file:
        file.write(b"some")
        file.write(memoryview(b" bytes"))

    data = (tmp_path / "file").read_bytes()
    assert data == b"some bytes"
    assert (file.size, file.sha256) == (len(data), hashlib.sha256(data).hexdigest())


def test_a_buffer_of_larger_items_counts_in_bytes(tmp_path: Path) -> None:
    with HashedFile(tmp_path / "file") as file:
        assert file.write(memoryview(b"12345678").cast("I")) == 8
        assert file.tell() == 8
