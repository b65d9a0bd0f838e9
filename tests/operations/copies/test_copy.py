"""Copies of a log directory that a broker changes meanwhile."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from spark_jobs.cli import app
from spark_jobs.lake.errors import LakeBusy, StorageError
from spark_jobs.lake.file_store import FileStore
from spark_jobs.lake.object_store import ObjectStore
from spark_jobs.lake.stores import open_store
from spark_jobs.operations.copy import RECORD, CopyRequest, copy_directory
from spark_jobs.operations.copy_snapshot import CopyPart, opened
from spark_jobs.sources.broker_files import COPY_TIMES, CopiedPath, CopyTimes
from tests.operations.copies.directories import ACTIVE, FIRST, SECOND, BrokerDirectory, copied, do_copy
from tests.s3_server import S3Server

FILES = 20
"""Of `BrokerDirectory`: six per partition, and two."""


@pytest.fixture
def broker(tmp_path: Path) -> BrokerDirectory:
    return BrokerDirectory(tmp_path / "kafka" / "data")


@pytest.fixture
def store(tmp_path: Path) -> FileStore:
    return FileStore(str(tmp_path / "copy"))


def times(store: ObjectStore) -> dict[str, CopiedPath]:
    return {each.path: each for each in CopyTimes.model_validate_json(store.read(COPY_TIMES)).copied}


@pytest.mark.parametrize("is_linked", [True, False])
def test_a_copy_has_all_that_runs_need_and_nothing_else(
    broker: BrokerDirectory, store: FileStore, is_linked: bool
) -> None:
    counts = do_copy(broker.root, store, is_linked=is_linked)
    assert copied(store) == broker.wanted()
    assert (counts.files, counts.partitions, counts.hard_links) == (FILES, 3, is_linked)
    assert list(broker.root.parent.iterdir()) == [broker.root]


@pytest.mark.parametrize("is_linked", [True, False])
def test_the_next_copy_transfers_what_is_new_and_removes_what_is_gone(
    broker: BrokerDirectory, store: FileStore, is_linked: bool
) -> None:
    do_copy(broker.root, store, is_linked=is_linked)
    untouched = (store.local_path(f"orders-0/{SECOND}") or Path()).stat().st_ino
    broker.append(f"orders-0/{ACTIVE}", b"more")
    (broker.root / f"orders-0/{FIRST}").unlink()
    again = do_copy(broker.root, store, is_linked=is_linked)
    assert copied(store) == broker.wanted()
    assert (again.files, again.unchanged_files, again.removed) == (1, FILES - 2, 1)
    assert (store.local_path(f"orders-0/{SECOND}") or Path()).stat().st_ino == untouched


@pytest.mark.parametrize("is_linked", [True, False])
def test_the_coordinators_logs_are_taken_after_the_data(
    broker: BrokerDirectory, store: FileStore, is_linked: bool
) -> None:
    do_copy(broker.root, store, is_linked=is_linked)
    found = times(store)
    assert set(found) == {"", "__transaction_state-", "__consumer_offsets-"}
    assert found[""].finished_at <= found["__transaction_state-"].started_at


def test_active_segments_are_copied_as_they_were_and_deleted_ones_are_kept_by_their_links(
    broker: BrokerDirectory, store: FileStore
) -> None:
    wanted = broker.wanted()

    def change(_key: str, _size: int) -> None:
        for partition in ("orders-0", "__transaction_state-0"):
            broker.append(f"{partition}/{ACTIVE}", b"later")
            (broker.root / f"{partition}/{FIRST}").unlink(missing_ok=True)

    do_copy(broker.root, store, watch=change)
    found = copied(store)
    assert found == wanted
    assert not (broker.root / f"orders-0/{FIRST}").exists()


def test_without_links_a_segment_that_retention_deletes_is_left_out(
    broker: BrokerDirectory, store: FileStore
) -> None:
    def change(key: str, _size: int) -> None:
        if key == f"orders-0/{FIRST}":
            (broker.root / f"orders-0/{FIRST}").unlink()
            (broker.root / f"orders-0/{SECOND}").unlink()

    counts = do_copy(broker.root, store, is_linked=False, watch=change)
    assert copied(store) == broker.wanted()
    assert counts.removed == 1


def test_where_links_are_impossible_files_are_copied_with_a_message(
    broker: BrokerDirectory, store: FileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "hardlink_to", refuse)  # as fs.protected_hardlinks does for another user
    remarks: list[str] = []
    assert not do_copy(broker.root, store, remarks=remarks).hard_links
    assert copied(store) == broker.wanted()
    assert len(remarks) == 1
    assert "run as the broker's user" in remarks[0]


@pytest.mark.parametrize("links", [".", "..", "beside"])
def test_nothing_but_its_own_folder_of_links_is_removed(
    broker: BrokerDirectory, store: FileStore, links: str
) -> None:
    place = (broker.root.parent / links).resolve()
    place.mkdir(exist_ok=True)
    (place / "kept.txt").write_text("of somebody else")
    before = sorted(place.rglob("kept.txt"))

    copy_directory(
        CopyRequest(log_directory=broker.root, store=store, links=place),
        remark=lambda _: None,
        watch=lambda _key, _size: None,
    )

    assert copied(store) == broker.wanted()
    assert sorted(place.rglob("kept.txt")) == before
    assert not list(place.glob(".*onceover-copy"))


def test_a_destination_in_the_folder_of_links_is_refused(broker: BrokerDirectory) -> None:
    links = CopyRequest(log_directory=broker.root, store=FileStore(str(broker.root.parent))).links_folder
    with pytest.raises(StorageError, match="inside the folder for hard links"):
        do_copy(broker.root, FileStore(str(links / "copy")))


def test_a_compacted_segment_of_the_same_size_and_time_is_noticed(
    broker: BrokerDirectory, store: FileStore
) -> None:
    do_copy(broker.root, store)
    size = (broker.root / f"orders-0/{FIRST}").stat().st_size
    broker.compact(f"orders-0/{FIRST}", b"c" * size)
    do_copy(broker.root, store)
    assert copied(store) == broker.wanted()


def test_without_its_record_closed_segments_are_compared_and_not_copied_again(
    broker: BrokerDirectory, store: FileStore
) -> None:
    do_copy(broker.root, store)
    store.put(RECORD, b"{")
    damaged = f"orders-0/{FIRST}"
    store.put(damaged, b"x" * len(store.read(damaged)))
    remarks: list[str] = []
    counts = do_copy(broker.root, store, remarks=remarks)
    assert copied(store) == broker.wanted()
    assert counts.unchanged_files == 5  # closed segments of three partitions without the damaged one
    assert "not readable" in remarks[0]


def test_a_damaged_copy_is_mended(broker: BrokerDirectory, store: FileStore) -> None:
    do_copy(broker.root, store)
    store.put(f"orders-0/{SECOND}", b"x" * len(store.read(f"orders-0/{SECOND}")))
    store.delete(f"orders-0/{FIRST}")
    assert do_copy(broker.root, store).files == 2
    assert copied(store) == broker.wanted()


def test_nothing_of_a_deleted_topic_stays_below_a_new_one_of_its_name(
    broker: BrokerDirectory, store: FileStore
) -> None:
    do_copy(broker.root, store)
    broker.write("orders-0/partition.metadata", b"version: 0\ntopic_id: two\n")
    for name in (FIRST, SECOND):
        (broker.root / f"orders-0/{name}").unlink()
    removed_first: list[bool] = []

    def look(key: str, _size: int) -> None:
        if key.startswith("orders-0/"):
            removed_first.append(store.stat(f"orders-0/{FIRST}") is None)

    do_copy(broker.root, store, watch=look)
    assert copied(store) == broker.wanted()
    assert all(removed_first)


def test_the_parts_can_be_copied_one_after_the_other(broker: BrokerDirectory, store: FileStore) -> None:
    do_copy(broker.root, store, parts=(CopyPart.DATA,))
    assert not any(key.startswith("__") for key in copied(store))
    assert set(times(store)) == {""}
    do_copy(broker.root, store, parts=(CopyPart.COORDINATOR,))
    first = times(store)
    assert copied(store) == broker.wanted()
    do_copy(broker.root, store, parts=(CopyPart.DATA,))
    second = times(store)
    assert second["__transaction_state-"] == first["__transaction_state-"]
    assert second[""].started_at > first[""].started_at


def test_times_that_are_not_known_of_a_part_are_not_written(
    broker: BrokerDirectory, store: FileStore
) -> None:
    do_copy(broker.root, store)
    store.delete(COPY_TIMES)
    do_copy(broker.root, store, parts=(CopyPart.DATA,))
    assert store.stat(COPY_TIMES) is None


def test_the_copy_of_another_broker_is_refused(broker: BrokerDirectory, store: FileStore) -> None:
    do_copy(broker.root, store)
    broker.write("meta.properties", b"cluster.id=abc\nnode.id=2\ndirectory.id=d2\n")
    before = copied(store)
    with pytest.raises(StorageError, match=r"node.id 1.*node.id 2"):
        do_copy(broker.root, store)
    assert copied(store) == before
    assert store.stat(COPY_TIMES) is not None


def test_what_is_no_log_directory_and_a_destination_inside_one_are_refused(
    broker: BrokerDirectory, tmp_path: Path
) -> None:
    with pytest.raises(StorageError, match="no log directory of a broker"):
        do_copy(tmp_path, FileStore(str(tmp_path.parent / "elsewhere")))
    for inside in (broker.root / "copy", broker.root.parent):
        with pytest.raises(StorageError, match="must be apart"):
            do_copy(broker.root, FileStore(str(inside)))


def test_two_copies_of_one_directory_exclude_each_other(broker: BrokerDirectory, store: FileStore) -> None:
    with (
        opened(broker.root, broker.root.parent / "links", is_linked=True, remark=print),
        pytest.raises(LakeBusy),
    ):
        do_copy(broker.root, store)


KILLED = """
import os, signal, sys
from pathlib import Path
from spark_jobs.lake.file_store import FileStore
from tests.operations.copies.directories import do_copy
left = int(sys.argv[3])
def die(key, size):
    global left
    left -= 1
    if not left:
        os.kill(os.getpid(), signal.SIGKILL)
do_copy(Path(sys.argv[1]), FileStore(sys.argv[2]), watch=die)
"""


@pytest.mark.parametrize("moment", [1, 13])
def test_a_killed_copy_claims_nothing_and_is_continued(
    broker: BrokerDirectory, store: FileStore, moment: int
) -> None:
    do_copy(broker.root, store)
    for partition in ("orders-0", "__transaction_state-0"):
        broker.append(f"{partition}/{ACTIVE}", b"more")
    command = [sys.executable, "-c", KILLED, str(broker.root), store.url, str(moment)]
    assert subprocess.run(command, check=False).returncode == -9
    assert store.stat(COPY_TIMES) is None
    wanted = broker.wanted()
    assert all(wanted[key].startswith(data) for key, data in copied(store).items())
    counts = do_copy(broker.root, store)
    assert copied(store) == wanted
    assert counts.files <= 2
    assert list(broker.root.parent.iterdir()) == [broker.root]


def test_a_bucket_is_a_destination(broker: BrokerDirectory, s3_server: S3Server) -> None:
    store = open_store(f"s3://{s3_server.new_bucket()}/broker-1", s3_server.settings)
    do_copy(broker.root, store)
    assert copied(store) == broker.wanted()
    broker.append(f"orders-0/{ACTIVE}", b"more")
    (broker.root / f"orders-0/{FIRST}").unlink()
    again = do_copy(broker.root, store)
    assert (again.files, again.removed) == (1, 1)
    assert copied(store) == broker.wanted()


def test_the_command_prints_what_it_did(broker: BrokerDirectory, tmp_path: Path) -> None:
    run = CliRunner().invoke
    done = run(app, ["copy", str(broker.root), str(tmp_path / "copy")])
    assert done.exit_code == 0, done.output
    assert f"3 partitions, {FILES} files copied" in done.stdout
    again = run(app, ["copy", str(broker.root), str(tmp_path / "copy"), "--json"])
    assert json.loads(again.stdout)["unchanged_files"] == FILES
    wrong = run(app, ["copy", str(broker.root), "gs://bucket"])
    assert wrong.exit_code == 1
    assert "expected a path, or s3://bucket/prefix" in wrong.stderr
