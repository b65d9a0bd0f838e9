"""Journals, also those that a killed tap left, and the objects that they become."""

import json
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.lake.errors import LakeBusy
from spark_jobs.lake.file_store import FileStore
from spark_jobs.tap.journal import Journal, Spool, read_journal, seal_left
from spark_jobs.tap.messages import PartAnswer, read_produce_request
from spark_jobs.tap.objects import OnRefused, write_objects
from tests.tap.messages import produce_request

Parts = list[tuple[str, int, bytes]]


def request(journal: Journal, number: int, parts: Parts, *, acks: int = -1) -> None:
    journal.request(number, read_produce_request(produce_request(parts, acks=acks)), 1000 + number)


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
        seal_left(path)
        seal_left(path)  # a second time changes nothing
        parts = [
            whole[entry.position : entry.position + entry.size]
            for entry in read_journal(path)
            if entry.kind.name == "REQUEST"
        ]
        assert b"".join(part.removesuffix(b"uno") for part in parts) in known


def test_names_increase_though_the_clock_goes_back(tmp_path: Path) -> None:
    (tmp_path / "last").write_text("29991231T235959999Z-tap")
    spool = Spool(tmp_path, "tap")
    names = [spool.new().name for _ in range(3)]
    assert names == sorted(set(names))
    assert names[0] > "29991231T235959999Z-tap"


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
