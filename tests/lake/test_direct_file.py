"""A file that bypasses the page cache holds the written bytes at all sizes, and reports a full disk."""

import errno
import os
from pathlib import Path
from random import Random

import numpy as np
import pytest

from spark_jobs.lake.direct_file import BLOCK, DIRECT, DirectFile


def put(file: DirectFile, data: bytes) -> None:
    file.room(len(data))[:] = np.frombuffer(data, dtype=np.uint8)
    file.push()


@pytest.mark.parametrize("cached", [False, True])
@pytest.mark.parametrize(
    "sizes",
    [
        [],
        [1],
        [BLOCK],
        [BLOCK - 1, 1, 1],
        [3 * BLOCK + 5, 7 * BLOCK - 5, 2, 20 * BLOCK],
        [100_000, 1, 3_000_000, 12, 50_000],
    ],
)
def test_what_was_put_is_there(tmp_path: Path, sizes: list[int], cached: bool) -> None:
    random, path = Random(7), tmp_path / "file"
    parts = [random.randbytes(size) for size in sizes]
    file = DirectFile(path, cached=cached)
    for part in parts:
        put(file, part)
    file.close()
    file.close()
    assert path.read_bytes() == b"".join(parts)
    assert file.size == sum(sizes)


def test_a_system_without_such_files_gets_an_ordinary_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    really_open, really_write = os.open, os.pwrite

    def refuse(path: Path, flags: int, *more: int) -> int:
        file = really_open(path, flags & ~DIRECT, *more)
        if flags & DIRECT:
            os.close(file)
            raise OSError(errno.EINVAL, "no such files here")
        return file

    monkeypatch.setattr(os, "open", refuse)
    monkeypatch.setattr(os, "pwrite", lambda file, data, at: really_write(file, data[:1000], at))
    file = DirectFile(tmp_path / "file")
    put(file, bytes(range(256)) * 40)
    file.close()
    assert (tmp_path / "file").read_bytes() == bytes(range(256)) * 40


def test_a_disk_that_takes_no_blocks_after_all_is_written_through_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    really_write, refused = os.pwrite, [OSError(errno.EINVAL, "not aligned")]

    def write(file: int, data: memoryview, at: int) -> int:
        if refused:
            raise refused.pop()
        return really_write(file, data, at)

    monkeypatch.setattr(os, "pwrite", write)
    file = DirectFile(tmp_path / "file", cached=False)
    put(file, bytes(3 * BLOCK))
    file.close()
    assert (tmp_path / "file").stat().st_size == 3 * BLOCK


def test_a_full_disk_is_reported_by_the_next_part_or_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(*_: object) -> int:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(os, "pwrite", write)
    file = DirectFile(tmp_path / "file")
    put(file, bytes(BLOCK))
    with pytest.raises(OSError, match="full"):
        put(file, bytes(BLOCK))
    file.close()
