import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from spark_jobs.lake.errors import ObjectChanged, ObjectMissing, StoreDenied, StoreFull, UnsafeKey
from spark_jobs.lake.file_store import SCRATCH, FileStore, translated


@pytest.fixture
def root(tmp_path: Path) -> Path:
    directory = tmp_path / "root"
    directory.mkdir()
    return directory


def test_a_root_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(ObjectMissing, match="no-such-root: there is no such directory"):
        list(FileStore(str(tmp_path / "no-such-root")).list())


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo], ids=["directory", "fifo"])
def test_what_is_not_a_regular_file_is_no_object(root: Path, make: Callable[[Path], None]) -> None:
    make(root / "thing")
    with pytest.raises(UnsafeKey, match="not a regular file"):
        FileStore(str(root)).read("thing")


def test_a_symbolic_link_is_listed_with_its_problem_and_never_followed(root: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"secret")
    (root / "link").symlink_to(tmp_path / "secret")
    store = FileStore(str(root))
    assert [found.problem for found in store.list()] == ["not a regular file"]
    with pytest.raises(UnsafeKey):
        store.read("link")


def test_a_linked_directory_leads_nowhere(root: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "file").write_bytes(b"secret")
    (root / "inside").symlink_to(tmp_path / "outside")
    store = FileStore(str(root))
    with pytest.raises(UnsafeKey, match="symbolic link"):
        store.read("inside/file")
    with pytest.raises(UnsafeKey, match="symbolic link"):
        store.put("inside/new", b"")
    assert not (tmp_path / "outside" / "new").exists()


def test_the_root_itself_may_be_a_link(root: Path, tmp_path: Path) -> None:
    (root / "file").write_bytes(b"here")
    (tmp_path / "link").symlink_to(root)
    assert FileStore(str(tmp_path / "link")).read("file") == b"here"


@pytest.mark.parametrize("size", [3, 2 * 2**22 - 1], ids=["shrunk", "cut while being read"])
def test_a_file_that_shrinks_while_it_is_read_is_noticed(root: Path, size: int) -> None:
    (root / "file").write_bytes(bytes(2 * 2**22))
    store = FileStore(str(root))
    found = store.stat("file")
    assert found is not None
    chunks = store.chunks("file", version=found.version)
    next(chunks)
    os.truncate(root / "file", size)
    with pytest.raises(ObjectChanged):
        list(chunks)


def test_names_that_are_not_utf8_are_listed(root: Path) -> None:
    Path(os.fsdecode(os.fsencode(root) + b"/bad\xff")).write_bytes(b"")
    assert [found.key for found in FileStore(str(root)).list()] == ["bad\udcff"]


def test_scratch_files_are_not_objects(root: Path) -> None:
    store = FileStore(str(root))
    (store.scratch() / "half").write_bytes(b"half")
    store.put("whole", b"")
    assert [found.key for found in store.list()] == ["whole"]


def test_a_lake_that_was_removed_meanwhile_is_begun_anew(tmp_path: Path) -> None:
    store = FileStore(str(tmp_path / "lake"))
    store.put("a", b"1")
    shutil.rmtree(tmp_path / "lake")
    store.put("a", b"2")
    assert store.read("a") == b"2"


def test_a_file_on_another_device_is_adopted_too(root: Path) -> None:
    shared = Path("/dev/shm")
    if not shared.is_dir() or shared.stat().st_dev == root.stat().st_dev:
        pytest.skip("there is no second device to adopt from")
    path = shared / f"onceover-test-{os.getpid()}"
    path.write_bytes(b"bytes")
    FileStore(str(root)).adopt(path, "a/b")
    assert (root / "a" / "b").read_bytes() == b"bytes"
    assert not path.exists()


def test_a_full_device_is_named_as_such_and_leaves_the_old_bytes(root: Path) -> None:
    store = FileStore(str(root))
    store.put("a", b"old")
    code = (
        "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100));"
        "from spark_jobs.lake.file_store import FileStore;"
        "FileStore(sys.argv[1]).put('a', bytes(1000))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(root)], capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert "StoreFull" in done.stderr
    assert store.read("a") == b"old"
    assert [path for path in (root / SCRATCH).rglob("*") if path.is_file()] == []


def test_writing_to_a_full_device_stops_with_what_to_do() -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("this system has no /dev/full")
    with pytest.raises(StoreFull, match="free some and run again"), translated("lake"):
        full.write_bytes(b"x")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission_is_denied(root: Path) -> None:
    (root / "file").write_bytes(b"")
    (root / "file").chmod(0)
    with pytest.raises(StoreDenied, match="permission denied"):
        FileStore(str(root)).read("file")


def test_a_directory_that_vanishes_while_it_is_listed_is_simply_gone(root: Path) -> None:
    for name in ("a", "b", "c"):
        (root / name).mkdir()
        (root / name / "file").write_bytes(b"")
    found = FileStore(str(root)).list()
    first = next(found)
    shutil.rmtree(root / "b")
    assert [first.key, *(each.key for each in found)] == ["a/file", "c/file"]
