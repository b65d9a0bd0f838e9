"""Temporary files of processes that have ended are removed, those of running ones are not."""

import os
import pickle
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from spark_jobs.lake import process_identity
from spark_jobs.lake.file_store import SCRATCH, FileStore
from spark_jobs.lake.scratch import ABANDONED_SECONDS, scratch_directory

MAKE_AND_WAIT = """
import sys, time
from pathlib import Path
from spark_jobs.lake.scratch import scratch_directory
directory = scratch_directory(Path(sys.argv[1]))
(directory / "half.parquet").write_bytes(b"PAR1")
print(directory, flush=True)
time.sleep(600)
"""


def test_a_killed_process_leaves_no_scratch_directory_behind(tmp_path: Path) -> None:
    command = [sys.executable, "-c", MAKE_AND_WAIT, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        left = Path(other.stdout.readline().strip())
        mine = scratch_directory(tmp_path)
        assert left.is_dir()
        os.kill(other.pid, signal.SIGKILL)
    assert left.is_dir()

    second = scratch_directory(tmp_path)

    assert set(tmp_path.iterdir()) == {mine, second}


def test_directories_of_other_names_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "onceover-1000").mkdir()
    (tmp_path / "onceover-1-x").mkdir()

    mine = scratch_directory(tmp_path)

    assert set(tmp_path.iterdir()) == {tmp_path / "onceover-1000", tmp_path / "onceover-1-x", mine}


def test_a_container_that_shares_the_directory_keeps_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another pid namespace has other processes of the same number; only age shows that one has ended."""
    mine = scratch_directory(tmp_path)
    held = mine / "half.parquet"
    held.write_bytes(b"PAR1")
    monkeypatch.setattr(process_identity, "_realm", lambda: "the boot id, and another pid namespace")
    monkeypatch.setattr(process_identity, "_start_of", lambda _: "another process with this pid")

    scratch_directory(tmp_path)
    assert held.exists()

    _age(mine)
    scratch_directory(tmp_path)
    assert held.exists()

    _age(held, mine)
    scratch_directory(tmp_path)
    assert not mine.exists()


WRITE_AND_DIE = """
import os, sys
from spark_jobs.lake.file_store import FileStore
(FileStore(sys.argv[1]).scratch() / "half.parquet").write_bytes(b"PAR1")
os.kill(os.getpid(), 9)
"""


def test_a_killed_worker_leaves_no_files_in_a_path_lake(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", WRITE_AND_DIE, str(tmp_path)], check=False)
    (left,) = (tmp_path / SCRATCH).iterdir()
    assert list(left.iterdir())

    mine = FileStore(str(tmp_path)).scratch()

    assert list((tmp_path / SCRATCH).iterdir()) == [mine]


def test_a_store_that_travels_leaves_its_directory_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = FileStore(str(tmp_path))
    mine = store.scratch()
    travelled = pickle.dumps(store)
    monkeypatch.setattr(process_identity, "_start_of", lambda _: "7")

    found = pickle.loads(travelled)

    assert found.url == store.url
    assert found.scratch() != mine


def test_files_of_earlier_versions_are_removed_when_they_are_a_day_old(tmp_path: Path) -> None:
    for name in ("old", "young"):
        (tmp_path / SCRATCH).mkdir(exist_ok=True)
        (tmp_path / SCRATCH / name).write_bytes(b"")
    _age(tmp_path / SCRATCH / "old")

    mine = FileStore(str(tmp_path)).scratch()

    assert set((tmp_path / SCRATCH).iterdir()) == {mine, tmp_path / SCRATCH / "young"}


def _age(*paths: Path) -> None:
    for path in paths:
        moment = path.stat().st_mtime - ABANDONED_SECONDS - 60
        os.utime(path, (moment, moment))


def test_a_symbolic_link_is_neither_followed_nor_removed(tmp_path: Path) -> None:
    place, target = tmp_path / "place", tmp_path / "target"
    place.mkdir()
    target.mkdir()
    link = place / "onceover-1-1-aaaaaaaaaaaa"
    link.symlink_to(target)
    long_ago = target.stat().st_mtime - 2 * ABANDONED_SECONDS
    os.utime(target, (long_ago, long_ago))
    os.utime(link, (long_ago, long_ago), follow_symlinks=False)

    scratch_directory(place)

    assert link.is_symlink()
    assert target.is_dir()
