"""Journals, also those that a killed tap left, and the objects that they become."""

import errno
import json
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.lake.errors import LakeBusy
from spark_jobs.lake.file_store import FileStore
from spark_jobs.tap.journal import Journal, Spool, read_journal, seal_left
from spark_jobs.tap.messages import AppendedPart, AppendRequest, PartAnswer, read_produce_request
from spark_jobs.tap.objects import OnRefused, write_objects
from tests.pipeline.batches import batch
from tests.tap.messages import produce_request

Parts = list[tuple[str, int, bytes]]


def request(
    journal: Journal, number: int, parts: Parts, *, transactional_id: str | None = None, at: int = 1000
) -> None:
    frame = produce_request(parts, transactional_id=transactional_id)
    journal.request(number, read_produce_request(frame), at)


def marker(journal: Journal, number: int, name: bytes) -> None:
    part = AppendedPart(topic="orders", partition=0, records=name)
    journal.request(
        number, AppendRequest(client_id=None, transactional_id=None, acks=None, parts=(part,)), 1000
    )


def answer(topic: str, partition: int, error: int = 0, offset: int = 5) -> PartAnswer:
    return PartAnswer(
        topic=topic, partition=partition, error_code=error, base_offset=offset, log_append_time=-1
    )


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    """Three requests to two partitions: taken, refused on one of them, and without an answer."""
    tmp_path.joinpath("spool").mkdir()
    journal = Spool(tmp_path / "spool", "tap").new()
    request(journal, 1, [("orders", 0, b"one"), ("orders", 1, b"uno")])
    request(journal, 2, [("orders", 0, b"two")])
    journal.answer(1, [answer("orders", 0), answer("orders", 1)])
    request(journal, 3, [("orders", 0, b"three")])
    journal.answer(2, [answer("orders", 0, error=45, offset=-1)])
    return journal


def objects(root: Path) -> dict[str, bytes]:
    found = {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}
    return {"/".join(key.split("/")[1:]): data for key, data in found.items()}


def lines(data: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in data.splitlines()]


def test_objects_have_the_batches_in_order_of_arrival_and_refused_ones_aside(
    journal: Journal, tmp_path: Path
) -> None:
    journal.seal()
    counts = write_objects(journal.path, FileStore(str(tmp_path / "root")), OnRefused.ASIDE)
    found, name = objects(tmp_path / "root"), journal.name
    assert {key: data for key, data in found.items() if "answers" not in key} == {
        f"orders-0/{name}.batches": b"onethree",
        f"orders-0/_{name}.refused": b"two",
        f"orders-1/{name}.batches": b"uno",
    }
    assert [
        (line["object"], line["position"], line["size"], line["error_code"], line["base_offset"])
        for line in lines(found[f"orders-0/_{name}.answers.jsonl"])
    ] == [("batches", 0, 3, 0, 5), ("refused", 0, 3, 45, -1), ("batches", 3, 5, None, None)]
    assert (counts.batches, counts.refused, counts.unanswered, counts.objects) == (4, 1, 1, 2)


def written(journal: Journal, root: Path) -> bytes:
    """The batches of orders-0 that the capture has."""
    journal.seal()
    write_objects(journal.path, FileStore(str(root)), OnRefused.ASIDE)
    return objects(root)[f"orders-0/{journal.name}.batches"]


def test_a_marker_is_between_the_transactions_though_the_next_one_arrived_before_it(tmp_path: Path) -> None:
    journal = Spool(tmp_path, "tap").new()
    request(journal, 1, [("orders", 0, b"first")], transactional_id="t")
    journal.answer(1, [answer("orders", 0)])
    request(journal, 2, [("orders", 0, b"second")], transactional_id="t")  # the broker lets it wait
    marker(journal, 3, b"|")
    journal.answer(3, [answer("orders", 0)])
    journal.answer(2, [answer("orders", 0)])
    assert written(journal, tmp_path / "root") == b"first|second"


def test_a_marker_without_an_answer_is_where_it_arrived(tmp_path: Path) -> None:
    journal = Spool(tmp_path, "tap").new()
    marker(journal, 1, b"|")
    marker(journal, 2, b"|")
    journal.answer(2, [answer("orders", 0)])
    request(journal, 3, [("orders", 0, b"next")], transactional_id="t")
    journal.answer(3, [answer("orders", 0)])
    journal.answer(1, None)
    marker(journal, 4, b"?")
    journal.answer(4, [answer("orders", 0, error=6)])
    assert written(journal, tmp_path / "root") == b"||next"


def test_transactional_batches_are_captured_if_the_broker_has_taken_them(tmp_path: Path) -> None:
    journal = Spool(tmp_path, "tap").new()
    for number, (name, error) in enumerate([(b"taken", 0), (b"late", 7), (b"none", None)], start=1):
        request(journal, number, [("orders", 0, name)], transactional_id="t")
        request(journal, number + 10, [("orders", 0, name.upper())])
        for each in (number, number + 10):
            journal.answer(each, None if error is None else [answer("orders", 0, error=error)])
    assert written(journal, tmp_path / "root") == b"takenTAKENLATENONE"


def test_requests_without_an_answer_go_on_in_the_next_journal(tmp_path: Path) -> None:
    spool = Spool(tmp_path, "tap")
    first, second = spool.new(), spool.new()
    request(first, 1, [("orders", 0, b"one")])
    request(first, 2, [("orders", 0, b"two")])
    first.answer(2, [answer("orders", 0)])
    second.copy_pending(first)
    first_bytes = first.path.read_bytes()
    first.seal(first.pending)
    request(second, 3, [("orders", 0, b"three")])
    second.answer(3, [answer("orders", 0)])
    second.answer(1, [answer("orders", 0)])
    second.seal()

    def captured(root: Path) -> list[bytes]:
        for journal in (first, second):
            write_objects(journal.path, FileStore(str(root)), OnRefused.ASIDE)
        return [data for key, data in sorted(objects(root).items()) if key.endswith(".batches")]

    assert captured(tmp_path / "one") == [b"two", b"threeone"]
    first.path.write_bytes(first_bytes)  # killed before the first journal was sealed
    seal_left([first.path, second.path])
    assert captured(tmp_path / "two") == [b"two", b"threeone"]


def test_refused_batches_can_be_captured_like_all_others(journal: Journal, tmp_path: Path) -> None:
    journal.seal()
    write_objects(journal.path, FileStore(str(tmp_path / "root")), OnRefused.CAPTURE)
    assert objects(tmp_path / "root")[f"orders-0/{journal.name}.batches"] == b"onetwothree"


def test_the_date_folder_is_that_of_the_journal(journal: Journal, tmp_path: Path) -> None:
    journal.seal()
    write_objects(journal.path, FileStore(str(tmp_path / "root")), OnRefused.ASIDE)
    day = f"{journal.name[:4]}-{journal.name[4:6]}-{journal.name[6:8]}"
    assert [path.name for path in (tmp_path / "root").glob("dt=*")] == [f"dt={day}"]


def test_a_journal_gives_the_same_objects_however_often_it_is_converted(
    journal: Journal, tmp_path: Path
) -> None:
    journal.seal()
    first, second = FileStore(str(tmp_path / "one")), FileStore(str(tmp_path / "two"))
    write_objects(journal.path, first, OnRefused.ASIDE)
    for _ in range(2):
        write_objects(journal.path, second, OnRefused.ASIDE)
    assert objects(tmp_path / "one") == objects(tmp_path / "two")


def test_a_journal_that_is_cut_anywhere_gives_whole_requests_only(journal: Journal, tmp_path: Path) -> None:
    whole = journal.path.read_bytes()
    known = {b"", b"one", b"onetwo", b"onetwothree"}
    for size in range(len(whole)):
        path = tmp_path / f"cut-{size}.journal"
        path.write_bytes(whole[:size])
        seal_left([path])
        seal_left([path])  # a second time changes nothing
        parts = [
            whole[entry.position : entry.position + entry.size]
            for entry in read_journal(path)
            if entry.kind.name == "REQUEST"
        ]
        assert b"".join(part.removesuffix(b"uno") for part in parts) in known


def test_a_journal_that_a_power_failure_left_with_an_empty_page_ends_before_it(
    journal: Journal, tmp_path: Path
) -> None:
    whole = journal.path.read_bytes()
    last = list(read_journal(journal.path))[-1]
    text = json.dumps(last.text, separators=(",", ":")).encode()
    journal.path.write_bytes(whole[: -len(text)] + bytes(len(text)))
    seal_left([journal.path])
    write_objects(journal.path, FileStore(str(tmp_path / "root")), OnRefused.ASIDE)
    assert objects(tmp_path / "root")[f"orders-0/{journal.name}.batches"] == b"onetwothree"


def test_a_full_disk_leaves_no_journal_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_arguments: object) -> None:
        raise OSError(errno.ENOSPC, "no space left")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(OSError, match="no space left"):
        Spool(tmp_path, "tap").new()
    assert list(tmp_path.iterdir()) == []


def test_names_increase_though_the_clock_goes_back(tmp_path: Path) -> None:
    (tmp_path / "last").write_text("29991231T235959999")
    spool = Spool(tmp_path, "tap")
    names = [spool.new().name for _ in range(3)]
    assert names == sorted(set(names))
    assert names[0] > "29991231T235959999"
    spool.note(40_000_000_000_000)  # of a request that was received later
    assert spool.new().name == "32370719T230640001Z-tap"


def test_objects_of_two_taps_are_in_the_order_of_the_log_though_its_leader_moved_and_came_back(
    tmp_path: Path,
) -> None:
    """The first broker leads, then the second, then the first again, within one journal of each."""
    start = 40_000_000_000_000
    root = FileStore(str(tmp_path / "root"))
    taps = {name: Spool(tmp_path / name, name) for name in ("a", "b")}
    for spool in taps.values():
        spool.folder.mkdir()
    journals = {name: spool.new() for name, spool in taps.items()}
    led_by = ["b", "b", "a", "b", "b"]
    for number, name in enumerate(led_by):
        request(journals[name], number, [("orders", 0, batch(number))], at=start + 100 * number)
        journals[name].answer(number, [answer("orders", 0, offset=number)])
    for journal in journals.values():
        journal.seal()
        write_objects(journal.path, root, OnRefused.ASIDE)
    found = {key: data for key, data in objects(tmp_path / "root").items() if key.endswith(".batches")}
    assert b"".join(data for _, data in sorted(found.items())) == b"".join(map(batch, range(5)))
    assert [key.rpartition("-")[2] for key in sorted(found)] == ["b.batches", "a.batches", "b.batches"]


def test_a_spool_has_one_tap(tmp_path: Path) -> None:
    with (
        Spool(tmp_path, "tap").locked(),
        pytest.raises(LakeBusy, match="another tap"),
        Spool(tmp_path, "tap").locked(),
    ):
        pass


def test_topics_that_could_leave_the_root_are_left_out(tmp_path: Path) -> None:
    journal = Spool(tmp_path, "tap").new()
    request(journal, 1, [("../up", 0, b"x"), ("a/b", 0, b"x")])
    journal.seal()
    counts = write_objects(journal.path, FileStore(str(tmp_path / "root")), OnRefused.ASIDE)
    assert (counts.illegal, objects(tmp_path / "root")) == (2, {})


def test_partitions_that_no_broker_can_have_are_left_out(tmp_path: Path) -> None:
    """Their journal would never become objects, nor would those after it."""
    journal = Spool(tmp_path, "tap").new()
    request(journal, 1, [("t" * 249, 1_000_000, b"x"), ("orders", -1, b"x"), ("orders", 0, b"one")])
    journal.seal()
    counts = write_objects(journal.path, FileStore(str(tmp_path / "root")), OnRefused.ASIDE)
    assert counts.illegal == 2
    assert {key.split("/")[0] for key in objects(tmp_path / "root")} == {"orders-0"}
