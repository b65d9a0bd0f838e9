"""Every change in a recording is found and reported, with exit code 1."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.kafka.formats.snapshot import read_snapshot, write_snapshot
from tests.recordings.__main__ import main

DATA = Path(__file__).parent / "data"
Change = Callable[[Path], None]


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """A copy of a transactional recording, to be changed."""
    return Path(shutil.copytree(DATA / "oracle_D", tmp_path / "changed"))


def _edit_lines(path: Path, edit: Callable[[list[str]], list[str]]) -> None:
    path.write_text("".join(f"{line}\n" for line in edit(path.read_text().splitlines())))


def _edit_event(root: Path, kind: str, edit: Callable[[dict[str, Any]], None]) -> None:
    """Change the last event of this kind."""

    def change(lines: list[str]) -> list[str]:
        events = [json.loads(line) for line in lines]
        edit([event for event in events if event["t"] == kind][-1])
        return [json.dumps(event) for event in events]

    _edit_lines(root / "replies.jsonl", change)


def _edit_reply(name: str, value: object) -> Change:
    return lambda root: _edit_event(
        root, "produce", lambda event: event["parts"][0]["reply"].update({name: value})
    )


def _edit_record(file: str, name: str, value: object) -> Change:
    def change(lines: list[str]) -> list[str]:
        return [*lines[:-1], json.dumps(json.loads(lines[-1]) | {name: value})]

    return lambda root: _edit_lines(root / file, change)


def _flip(file: str, position: int) -> Change:
    def change(root: Path) -> None:
        data = bytearray((root / file).read_bytes())
        data[position] ^= 1
        (root / file).write_bytes(data)

    return change


def _edit_snapshot(root: Path) -> None:
    path = root / "data/orc-0/00000000000000000196.snapshot"
    first, *others = read_snapshot(path.read_bytes())
    path.write_bytes(write_snapshot([replace(first, producer_epoch=first.producer_epoch + 1), *others]))


def _prune_aborted(root: Path) -> None:
    path = root / "data/lat-0/00000000000000000216.txnindex"
    path.write_bytes(path.read_bytes()[34:])


def _cut_transaction_log(root: Path) -> None:
    path = root / "data/__transaction_state-1/00000000000000000062.log"
    path.write_bytes(b"")


def _raise_last_stable_offset(root: Path) -> None:
    offsets = json.loads((root / "offsets.json").read_text())
    offsets["lat-0"]["last_stable_offset"] += 1
    (root / "offsets.json").write_text(json.dumps(offsets))


def _edit_dump(root: Path) -> None:
    path = root / "dump/__transaction_state-2.txt"
    path.write_text(path.read_text().replace('"transactionStatus":5', '"transactionStatus":4'))


CHANGES: dict[str, tuple[Change, str]] = {
    "error code": (_edit_reply("error_code", 45), "error_code: recorded 45"),
    "base offset": (_edit_reply("base_offset", 7), "base_offset: recorded 7"),
    "log start": (_edit_reply("log_start_offset", 7), "log_start_offset: recorded 7"),
    "refused records": (_edit_reply("record_errors", [[3, "x"]]), "refused_records: recorded (3,)"),
    "message": (_edit_reply("error_message", "x"), "has_message: recorded True"),
    "producer epoch": (
        lambda root: _edit_event(root, "init_producer_id", lambda e: e["reply"].update(producer_epoch=99)),
        "producer_epoch: recorded 99",
    ),
    "added partition": (
        lambda root: _edit_event(root, "add_partitions_to_txn", lambda e: e["reply"][0].update(error_code=3)),
        "error_code: recorded 3",
    ),
    "end of transaction": (
        lambda root: _edit_event(root, "end_txn", lambda e: e["reply"].update(error_code=48)),
        "error_code: recorded 48",
    ),
    "transaction state": (
        lambda root: _edit_event(root, "txn_state", lambda e: e.update(state="Ongoing")),
        "state: recorded Ongoing",
    ),
    "bit of a batch": (_flip("data/orc-1/00000000000000000113.log", 4000), "113.log"),
    "bit of the last byte": (_flip("data/orc-1/00000000000000000218.log", -1), "218.log"),
    "snapshot entry": (_edit_snapshot, "196.snapshot: producer 0"),
    "missing snapshot": (
        lambda root: (root / "data/orc-0/00000000000000000106.snapshot").unlink(),
        "orc-0: snapshot offsets",
    ),
    "missing segment": (
        lambda root: (root / "data/orc-1/00000000000000000218.log").unlink(),
        "orc-1: segments: recorded [0, 113], replayed [0, 113, 218]",
    ),
    "aborted transaction": (_prune_aborted, "216.txnindex"),
    "leader epoch": (
        lambda root: _edit_lines(root / "data/orc-0/leader-epoch-checkpoint", lambda _: ["0", "1", "1 0"]),
        "orc-0: leader-epoch-checkpoint: recorded [(1, 0)], replayed [(0, 0)]",
    ),
    "coordinator's records": (_cut_transaction_log, "__transaction_state tx"),
    "committed record": (_edit_record("truth.jsonl", "value", None), "value: recorded None"),
    "missing committed record": (
        lambda root: _edit_lines(root / "truth.jsonl", lambda lines: lines[1:]),
        "offsets that only one side has: recorded [], replayed",
    ),
    "uncommitted record": (_edit_record("truth_uncommitted.jsonl", "timestamp", 1), "timestamp: recorded 1"),
    "last stable offset": (_raise_last_stable_offset, "last_stable_offset: recorded 233, replayed 232"),
    "dumped value": (_edit_dump, "value in line"),
    "unknown event": (
        lambda root: _edit_event(root, "txn_state", lambda e: e.update(t="eclipse")),
        "eclipse: kind: recorded eclipse",
    ),
    "event without its request": (
        lambda root: _edit_event(root, "end_txn", lambda e: e.pop("request_b64")),
        "unreadable in line",
    ),
    "line that is not JSON": (
        lambda root: _edit_lines(root / "replies.jsonl", lambda lines: [*lines, "{"]),
        "unreadable in line 702: JSONDecodeError",
    ),
    "unreadable checkpoint": (
        lambda root: _edit_lines(root / "data/orc-0/leader-epoch-checkpoint", lambda _: ["9"]),
        "CorruptCheckpoint",
    ),
    "event without its fields": (
        lambda root: _edit_event(root, "produce", lambda e: e["parts"][0]["reply"].pop("base_offset")),
        "comparison: recorded an answer, replayed KeyError",
    ),
}


@pytest.mark.parametrize(("change", "reported"), CHANGES.values(), ids=CHANGES.keys())
def test_a_change_is_found(
    change: Change, reported: str, recording: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change(recording)
    assert main([str(recording)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert any(reported in line for line in lines[:-2]), "\n".join(lines[:20])
    assert lines[-1].endswith(f" requests, {len(lines) - 2} differences")


def test_an_unchanged_copy_has_no_difference(recording: Path) -> None:
    assert main([str(recording)]) == 0
