"""What every store promises, on files and on a real S3 server."""

import hashlib
import os
import pickle
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from spark_jobs.lake.errors import ObjectChanged, ObjectMissing, UnsafeKey
from spark_jobs.lake.object_store import ObjectStore

MIB = 2**20
NAMES = ["a-b/1", "a.b", "a/1", "a/2", "a0", "Ω/é", "sp ace+%/q&<>", "n" * 200 + "/x"]


def test_what_was_put_is_read(store: ObjectStore) -> None:
    store.put("a/b", b"first")
    store.put("a/b", b"second")
    assert store.read("a/b") == b"second"


def test_an_empty_object_is_an_object(store: ObjectStore) -> None:
    store.put("empty", b"")
    found = store.stat("empty")
    assert found is not None
    assert (found.size, store.read("empty"), store.read_range("empty", 0, 10)) == (0, b"", b"")


def test_a_missing_object_has_no_stat_and_cannot_be_read(store: ObjectStore) -> None:
    store.put("other", b"")
    assert store.stat("a/b") is None
    with pytest.raises(ObjectMissing, match="a/b"):
        store.read("a/b")


def test_objects_are_listed_in_the_order_of_their_keys(store: ObjectStore) -> None:
    for name in NAMES:
        store.put(f"x/{name}", name.encode())
    store.put("y/other", b"")
    listed = list(store.list("x"))
    assert [found.key for found in listed] == sorted(f"x/{name}" for name in NAMES)
    assert [found.size for found in listed] == [len(found.key.encode()) - 2 for found in listed]


def test_a_prefix_is_a_directory_and_not_the_beginning_of_a_name(store: ObjectStore) -> None:
    store.put("run/1", b"")
    store.put("runs/1", b"")
    assert [found.key for found in store.list("run")] == ["run/1"]
    assert list(store.list("nothing/here")) == []


def test_a_range_ends_where_the_object_ends(store: ObjectStore) -> None:
    store.put("a", b"0123456789")
    ranges = [store.read_range("a", start, length) for start, length in ((2, 3), (8, 5), (10, 1), (99, 1))]
    assert ranges == [b"234", b"89", b"", b""]


@pytest.mark.parametrize(("start", "length"), [(0, 3), (4097, 2 * MIB + 5), (3 * MIB, 4 * MIB), (9 * MIB, 1)])
def test_a_look_at_a_range_shows_what_reading_it_gives(store: ObjectStore, start: int, length: int) -> None:
    store.put("a", os.urandom(3 * MIB + 77))
    with store.viewed("a", start, length, version=_version(store, "a")) as seen:
        assert bytes(seen) == store.read_range("a", start, length)


def test_a_look_at_a_version_that_was_replaced_is_noticed(store: ObjectStore) -> None:
    store.put("a", b"old bytes")
    version = _version(store, "a")
    store.put("a", b"new bytes!")
    with pytest.raises(ObjectChanged, match="a: changed"), store.viewed("a", 0, 3, version=version):
        pass


def test_listing_and_stat_agree_on_an_objects_version(store: ObjectStore) -> None:
    store.put("a", b"bytes")
    assert list(store.list()) == [store.stat("a")]


def test_reading_a_version_that_was_replaced_is_noticed(store: ObjectStore) -> None:
    store.put("a", b"old bytes")
    version = _version(store, "a")
    assert store.read_range("a", 0, 3, version=version) == b"old"
    store.put("a", b"new bytes!")
    with pytest.raises(ObjectChanged, match="a: changed"):
        store.read_range("a", 0, 3, version=version)
    with pytest.raises(ObjectChanged):
        list(store.chunks("a", version=version))


def test_putting_if_absent_never_replaces(store: ObjectStore) -> None:
    assert store.put_if_absent("a", b"first")
    assert not store.put_if_absent("a", b"second")
    assert store.read("a") == b"first"


def test_putting_the_same_bytes_again_counts_as_done(store: ObjectStore) -> None:
    assert store.put_if_absent("a", b"first")
    assert store.put_if_absent("a", b"first")


def test_of_many_that_put_if_absent_at_once_exactly_one_wins(store: ObjectStore) -> None:
    start, won = threading.Barrier(12), []

    def contend(number: int) -> None:
        start.wait()
        if store.put_if_absent("race", str(number).encode()):
            won.append(str(number).encode())

    _run_together(contend, 12)
    assert won == [store.read("race")]


def test_an_adopted_file_of_several_parts_is_moved_in_whole(store: ObjectStore) -> None:
    data = os.urandom(33 * MIB + 7)
    path = store.scratch() / "big"
    path.write_bytes(data)
    store.adopt(path, "objects/big")
    assert not path.exists()
    assert hashlib.sha256(store.read("objects/big")).digest() == hashlib.sha256(data).digest()
    assert store.read_range("objects/big", 16 * MIB - 2, 4) == data[16 * MIB - 2 : 16 * MIB + 2]


def test_chunks_are_bounded_however_large_the_object(store: ObjectStore) -> None:
    path = store.scratch() / "big"
    path.write_bytes(bytes(40 * MIB))
    store.adopt(path, "big")
    sizes = [len(chunk) for chunk in store.chunks("big")]
    assert sum(sizes) == 40 * MIB
    assert max(sizes) <= 16 * MIB


def test_deleting_twice_is_no_error(store: ObjectStore) -> None:
    store.put("a", b"")
    store.delete("a")
    store.delete("a")
    assert store.stat("a") is None


@pytest.mark.parametrize("name", ["../outside", "a/../../b", "a\0b", ""])
def test_no_operation_takes_a_hostile_key(store: ObjectStore, name: str) -> None:
    operations: list[Callable[[], object]] = [
        lambda: store.put(name, b""),
        lambda: store.put_if_absent(name, b""),
        lambda: store.read(name),
        lambda: store.read_range(name, 0, 1),
        lambda: store.stat(name),
        lambda: store.delete(name),
        lambda: store.adopt(Path("nothing"), name),
        lambda: store.url_of(name),
    ]
    for operation in operations:
        with pytest.raises(UnsafeKey):
            operation()


def test_a_store_travels_to_a_worker(store: ObjectStore) -> None:
    store.put("a", b"here")
    assert pickle.loads(pickle.dumps(store)).read("a") == b"here"


def _version(store: ObjectStore, key: str) -> str:
    found = store.stat(key)
    assert found is not None
    return found.version


def _run_together(work: Callable[[int], None], count: int) -> None:
    threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
