"""Offsets that no copy of a broker's log has: what is behind them is held, and published once they arrive."""

import json
import re
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.explain import Question, explain
from spark_jobs.flow import Step
from spark_jobs.kafka.formats.control_record import ControlType
from spark_jobs.operations.expire import expire
from spark_jobs.operations.rollback import roll_back
from tests.operations.backfill.lakes import (
    backfill,
    chain_of,
    current_run,
    plan,
    run_day,
    run_tree,
    tables,
    whys,
)
from tests.pipeline.admitted import ORDERS, AdmittedRun
from tests.pipeline.batches import batch, marker
from tests.pipeline.runs import BROKER_LOG, Place, day, place_at

SEGMENT = 4
"""Offsets of a segment."""
PAST = BROKER_LOG + "topics: {orders: {gaps: publish_past}}\n"


def _batches(first: int, last: int) -> Iterable[bytes]:
    """Producer 1 writes plainly; of eight offsets each producer 2 has a transaction over a segment's edge."""
    for offset in range(first, last + 1):
        turn = offset % 8
        if turn in {2, 5}:
            yield batch(2 * (offset // 8) + (turn == 5), pid=2, txn=True, at=offset, leader_epoch=0)
        elif turn == 6:
            kind = ControlType.ABORT if offset % 16 == 6 else ControlType.COMMIT
            yield marker(kind, pid=2, at=offset, leader_epoch=0)
        else:
            others = 3 * (offset // 8) + sum(turn > each for each in (2, 5, 6))
            yield batch(offset - others, at=offset, leader_epoch=0)


def _segment(number: int, *, until: int | None = None) -> bytes:
    first = SEGMENT * number
    return b"".join(_batches(first, first + SEGMENT - 1 if until is None else until))


def _path(number: int, directory: str = "one") -> str:
    return f"{directory}/orders-0/{SEGMENT * number:020d}.log"


def _copy(place: Place, *numbers: int, directory: str = "one") -> None:
    """The source is a copy of these segments now."""
    shutil.rmtree(Path(place.settings.sources[0].root, directory), ignore_errors=True)
    for number in numbers:
        place.arrive(_path(number, directory), _segment(number))


def _records(place: Place) -> list[str]:
    found = tables(place)
    return next(rows for name, rows in found.items() if name.startswith("topics.orders"))


def _gap_table(place: Place) -> list[str]:
    return tables(place)["onceover.gaps"]


def _statuses(run: AdmittedRun) -> list[tuple[int, int, str]]:
    return [(row["first_offset"], row["last_offset"], row["status"]) for row in run.gap_rows()]


def _messages(run: AdmittedRun, step: Step = Step.ADMIT) -> list[str]:
    key = run.key(step, "messages.json")
    found: list[str] = json.loads(run.lake.read(key)) if run.lake.stat(key) else []
    return found


def _unbroken(directory: Path, segments: int, config: str = BROKER_LOG) -> Place:
    place = place_at(directory / "unbroken", config)
    _copy(place, *range(segments))
    run_day(place, 1, Step.PUBLISH)
    return place


def _state(place: Place, number: int) -> dict[str, Any]:
    """What producers and transactions are, without what remembers gaps."""
    state = current_run(place, number).state()
    return {
        "producers": state.producers.tobytes(),
        "open": [(int(row["producer_id"]), int(row["first_offset"])) for row in state.open_transactions],
        "end_offset": state.end_offset,
        "epochs": state.leader_epochs,
    }


def _without_dates(rows: list[str]) -> list[str]:
    """Rows of a topic's table without the date of the run that published them."""
    return sorted(re.sub(r"datetime.date\(2024, 5, \d+\)", "", row) for row in rows)


def _same_in_the_end(place: Place, number: int, whole: Place) -> None:
    """Every record is published once, and producers and transactions are those of the unbroken log."""
    assert _without_dates(_records(place)) == _without_dates(_records(whole))
    assert _state(place, number) == _state(whole, 1)
    assert current_run(place, number).state().gaps == ""


def test_a_missing_segment_that_a_later_copy_brings_is_published_once(tmp_path: Path) -> None:
    place = place_at(tmp_path / "place", BROKER_LOG)
    _copy(place, 0, 2, 3)
    first = run_day(place, 1, Step.PUBLISH)
    held = current_run(place, 1)

    assert first.is_final
    assert first.is_held
    assert _statuses(held) == [(4, 7, "open")]
    assert (held.state().end_offset, held.verdicts()) == (4, ["accepted"] * 4 + ["behind_gap"] * 8)
    assert "offsets 4 to 7 are in no copy" in _messages(held)[0]
    assert len(_records(place)) == 2  # of the others a transaction is open

    _copy(place, 0, 1, 2, 3)
    second = run_day(place, 2, Step.PUBLISH)

    assert not second.is_held
    assert _statuses(current_run(place, 2)) == [(4, 7, "filled")]
    _same_in_the_end(place, 2, _unbroken(tmp_path, 4))
    assert [re.findall("'status': '([a-z]+)'", row)[0] for row in _gap_table(place)] == ["filled", "open"]


def test_the_others_go_on(tmp_path: Path) -> None:
    place = place_at(tmp_path, BROKER_LOG)
    _copy(place, 0, 2)
    place.arrive(f"one/orders-1/{0:020d}.log", _segment(0))

    run_day(place, 1, Step.PUBLISH)

    partitions = current_run(place, 1).partitions()
    assert [row["end_offset"] for row in partitions.values()] == [4, 4]
    assert [row["held"] for row in partitions.values()] == [4, 0]


def test_what_is_held_is_published_though_its_source_has_deleted_it_meanwhile(tmp_path: Path) -> None:
    place = place_at(tmp_path / "place", BROKER_LOG)
    _copy(place, 0, 2, 3)
    run_day(place, 1, Step.PUBLISH)
    _copy(place, 4)
    place.arrive("one/orders-0/leader-epoch-checkpoint", b"0\n1\n0 16\n")
    place.arrive("one/log-start-offset-checkpoint", b"0\n1\norders 0 16\n")

    second = run_day(place, 2, Step.PUBLISH)

    assert second.is_held
    assert _statuses(current_run(place, 2)) == [(4, 7, "open")]
    assert current_run(place, 2).verdicts() == ["behind_gap"] * 12

    _copy(place, 5)
    place.arrive(_path(1, "backup"), _segment(1))
    run_day(place, 3, Step.PUBLISH)

    assert _statuses(current_run(place, 3)) == [(4, 7, "filled")]
    _same_in_the_end(place, 3, _unbroken(tmp_path, 6))


def test_several_gaps_are_filled_one_after_the_other(tmp_path: Path) -> None:
    place = place_at(tmp_path / "place", BROKER_LOG)
    _copy(place, 0, 2, 4, 6)
    run_day(place, 1, Step.PUBLISH)
    gaps = current_run(place, 1).gap_rows()
    assert [(row["first_offset"], row["held_batches"], row["held_records"]) for row in gaps] == [
        (4, 4, 4),
        (12, 4, 4),
        (20, 4, 4),
    ]
    assert [row["before"] for row in gaps] == [f"gateway/{_path(number)}" for number in (0, 2, 4)]
    assert [row["after"] for row in gaps] == [f"gateway/{_path(number)}" for number in (2, 4, 6)]

    _copy(place, 3)
    run_day(place, 2, Step.PUBLISH)
    assert _statuses(current_run(place, 2)) == [(4, 7, "open"), (12, 15, "filled"), (20, 23, "open")]
    assert current_run(place, 2).state().end_offset == 4

    _copy(place, 1)
    run_day(place, 3, Step.PUBLISH)
    assert _statuses(current_run(place, 3)) == [(4, 7, "filled"), (20, 23, "open")]
    assert current_run(place, 3).state().end_offset == 20
    assert {str(row["found_on"]) for row in current_run(place, 3).gap_rows()} == {"2024-05-01"}

    _copy(place, 5)
    run_day(place, 4, Step.PUBLISH)
    _same_in_the_end(place, 4, _unbroken(tmp_path, 7))


def test_a_gap_that_is_filled_in_part_stays_open_for_the_rest(tmp_path: Path) -> None:
    place = place_at(tmp_path, BROKER_LOG)
    _copy(place, 0, 2)
    run_day(place, 1)
    place.arrive(_path(1), _segment(1, until=5))

    run_day(place, 2)

    assert _statuses(current_run(place, 2)) == [(4, 5, "filled"), (6, 7, "open")]
    assert current_run(place, 2).state().end_offset == 6


def test_a_partition_without_objects_stays_held_and_is_listed(tmp_path: Path) -> None:
    config = BROKER_LOG + "audit: {severities: {partitions_are_still_there: warning}}\n"
    place = place_at(tmp_path, config)
    _copy(place, 0, 2)
    run_day(place, 1, Step.PUBLISH)
    _copy(place)
    place.arrive(f"one/other-0/{0:020d}.log", _segment(0))

    second = run_day(place, 2, Step.PUBLISH)

    assert second.is_held
    assert _statuses(current_run(place, 2)) == [(4, 7, "open")]
    assert [row["held_batches"] for row in current_run(place, 2).gap_rows()] == [4]


def test_the_same_inputs_give_the_same_bytes(tmp_path: Path) -> None:
    found = []
    for name in ("one", "two"):
        place = place_at(tmp_path / name, BROKER_LOG)
        _copy(place, 0, 2, 4)
        run_day(place, 1)
        _copy(place, 1)
        run_day(place, 2)
        trees = (run_tree(place, current_run(place, number).run_id) for number in (1, 2))
        # The manifest has times of objects, and each step names the one before it.
        found.append(
            [
                {path: tree[path] for path in tree if "stage/" not in path and "_done" not in path}
                for tree in trees
            ]
        )
    assert found[0] == found[1]


def test_held_objects_survive_expiry(tmp_path: Path) -> None:
    config = BROKER_LOG + "retention: {staged_days: 1, runs_days: 1}\n"
    place = place_at(tmp_path / "place", config)
    _copy(place, 0, 2)
    run_day(place, 1, Step.PUBLISH)
    _copy(place, 3)
    for number in range(2, 7):
        run_day(place, number, Step.PUBLISH)
    expire(place.settings)
    _copy(place, 1)

    run_day(place, 7, Step.PUBLISH)

    _same_in_the_end(place, 7, _unbroken(tmp_path, 4))


def test_a_batch_that_a_newer_leader_overwrote_while_it_was_held_is_divergent(tmp_path: Path) -> None:
    place = place_at(tmp_path, BROKER_LOG)
    _copy(place, 0, 2)
    run_day(place, 1)
    newer = b"".join(batch(number, pid=9, at=8 + number, leader_epoch=3) for number in range(2))
    _copy(place, 0, 1)
    place.arrive(_path(2), newer)

    run_day(place, 2)

    run = current_run(place, 2)
    kept = [row for row in run.batches() if row["base_offset"] >= 8]
    assert [(row["producer_id"], row["verdict"]) for row in kept if row["producer_id"] == 9] == [
        (9, "accepted")
    ] * 2
    assert {row["verdict"] for row in kept if row["producer_id"] != 9} == {"divergent"}
    assert run.state().end_offset == 10


# -- what explains a hole ----------------------------------------------------------------------------------


def test_a_first_copy_without_its_first_segments_is_held(tmp_path: Path) -> None:
    place = place_at(tmp_path / "place", BROKER_LOG)
    _copy(place, 1, 2)
    place.arrive("one/orders-0/leader-epoch-checkpoint", b"0\n1\n0 0\n")
    run_day(place, 1, Step.PUBLISH)
    assert _statuses(current_run(place, 1)) == [(0, 3, "open")]

    _copy(place, 0, 1, 2)
    run_day(place, 2, Step.PUBLISH)

    _same_in_the_end(place, 2, _unbroken(tmp_path, 3))


@pytest.mark.parametrize("checkpoint", [b"0\n1\n0 4\n", b"0\n1\n0 9\n", b"0\n0\n", b"junk", None], ids=repr)
def test_a_first_copy_begins_where_its_first_segment_does(tmp_path: Path, checkpoint: bytes | None) -> None:
    place = place_at(tmp_path, BROKER_LOG)
    _copy(place, 1, 2)
    if checkpoint is not None:
        place.arrive("one/orders-0/leader-epoch-checkpoint", checkpoint)

    run_day(place, 1)

    assert (current_run(place, 1).gaps(), current_run(place, 1).state().end_offset) == ([], 12)


@pytest.mark.parametrize(
    ("epochs", "log_start", "found"),
    [
        (b"0\n1\n0 12\n", None, (4, 11, "deleted")),
        (None, 12, (4, 11, "deleted")),
        (b"0\n1\n0 0\n", None, (4, 11, "open")),
        (b"0\n1\n0 13\n", None, (4, 11, "open")),
        (None, None, (4, 11, "open")),
    ],
)
def test_only_what_the_broker_wrote_down_proves_a_deletion(
    tmp_path: Path, epochs: bytes | None, log_start: int | None, found: tuple[int, int, str]
) -> None:
    place = place_at(tmp_path, BROKER_LOG)
    _copy(place, 0)
    run_day(place, 1)
    _copy(place, 3, 4)
    if epochs is not None:
        place.arrive("one/orders-0/leader-epoch-checkpoint", epochs)
    if log_start is not None:
        place.arrive("one/log-start-offset-checkpoint", f"0\n1\norders 0 {log_start}\n".encode())

    run_day(place, 2)

    assert _statuses(current_run(place, 2)) == [found]
    assert current_run(place, 2).state().end_offset == (20 if found[2] == "deleted" else 4)


def test_a_deletion_does_not_explain_what_is_missing_behind_it(tmp_path: Path) -> None:
    place = place_at(tmp_path, BROKER_LOG)
    _copy(place, 0)
    run_day(place, 1, Step.PUBLISH)
    _copy(place, 3, 4)
    place.arrive("one/log-start-offset-checkpoint", b"0\n1\norders 0 8\n")

    run_day(place, 2, Step.PUBLISH)

    assert _statuses(current_run(place, 2)) == [(4, 7, "deleted"), (8, 11, "open")]
    assert current_run(place, 2).state().end_offset == 8


def test_a_partition_that_retention_has_emptied_is_as_it_should_be(tmp_path: Path) -> None:
    place = place_at(tmp_path, BROKER_LOG)
    _copy(place, 0)
    run_day(place, 1, Step.PUBLISH)
    _copy(place)
    empty = place.arrive(_path(1))
    empty.write_bytes(b"")

    second = run_day(place, 2, Step.PUBLISH)

    assert not second.is_held
    assert (_messages(current_run(place, 2)), current_run(place, 2).gaps()) == ([], [])
    assert current_run(place, 2).state().end_offset == 4


@pytest.mark.parametrize(("cleaned", "gaps"), [(8, []), (6, [(6, 7)]), (0, [(4, 7)])])
def test_a_cleaner_explains_holes_up_to_where_it_was(
    tmp_path: Path, cleaned: int, gaps: list[tuple[int, int]]
) -> None:
    place = place_at(tmp_path, BROKER_LOG)
    _copy(place, 0, 2)
    place.arrive("one/cleaner-offset-checkpoint", f"0\n1\norders 0 {cleaned}\n".encode())

    found = run_day(place, 1, Step.PUBLISH)

    assert current_run(place, 1).gaps() == gaps
    assert found.is_held == bool(gaps)
    if not gaps:
        assert _messages(current_run(place, 1)) == []


def test_damage_is_no_work_of_a_cleaner(tmp_path: Path) -> None:
    place = place_at(tmp_path, BROKER_LOG)
    _copy(place, 0, 1, 2)
    data = bytearray(_segment(1))
    data[70] ^= 1
    place.arrive(_path(1), bytes(data))
    place.arrive("one/cleaner-offset-checkpoint", b"0\n1\norders 0 12\n")

    run_day(place, 1)

    assert _statuses(current_run(place, 1)) == [(5, 5, "open")]


# -- gaps: publish_past --------------------------------------------------------------------------------------


def test_publishing_past_a_gap_releases_what_was_held(tmp_path: Path) -> None:
    place = place_at(tmp_path, BROKER_LOG)
    _copy(place, 0, 2)
    run_day(place, 1, Step.PUBLISH)
    past = place_at(tmp_path, PAST)
    _copy(past, 3)

    second = run_day(past, 2, Step.PUBLISH)

    assert not second.is_held
    assert _statuses(current_run(past, 2)) == [(4, 7, "published_past")]
    assert current_run(past, 2).state().end_offset == 16
    assert current_run(past, 2).verdicts() == ["accepted"] * 8


def test_offsets_that_come_after_they_were_passed_are_taken_by_a_backfill(tmp_path: Path) -> None:
    place = place_at(tmp_path / "place", PAST)
    _copy(place, 0, 2)
    run_day(place, 1, Step.PUBLISH)
    assert _statuses(current_run(place, 1)) == [(4, 7, "published_past")]
    _copy(place, 0, 1, 2)

    run_day(place, 2, Step.PUBLISH)

    late = current_run(place, 2)
    assert [row["verdict"] for row in late.batches() if 4 <= row["base_offset"] < 8] == ["late"] * 4
    assert _statuses(late) == [(4, 7, "late")]
    [message] = _messages(late)
    assert message.startswith(
        f"orders-0: gateway/{_path(1)} has offsets 4 to 7, which an earlier run published past"
    )
    assert message.endswith("onceover backfill --from 2024-05-01 --to 2024-05-01")
    assert whys(plan(place, 1)) == {1: ["late"], 2: ["if state"]}
    assert backfill(place, 1, until=Step.PUBLISH) == [day(1), day(2)]
    _same_in_the_end(place, 2, _unbroken(tmp_path, 3, PAST))
    assert not plan(place, 1).changes


def test_a_run_taken_back_and_staged_anew_takes_what_has_arrived(tmp_path: Path) -> None:
    place = place_at(tmp_path / "place", BROKER_LOG)
    _copy(place, 0, 2)
    first = run_day(place, 1, Step.PUBLISH)
    roll_back(place.settings, first.run_id)
    _copy(place, 0, 1, 2)
    place.stage(1, restage=True)

    run_day(place, 1, Step.PUBLISH)

    _same_in_the_end(place, 1, _unbroken(tmp_path, 3))


# -- explain -------------------------------------------------------------------------------------------------


def _explained(place: Place, offset: int) -> list[str]:
    question = Question(partition=ORDERS, offset=offset)
    runs = [entry.run_id for entry in chain_of(place).current.values()]
    return [answer.sentence for run_id in runs for answer in explain(place.lake, question, run_id)]


def test_explain_reports_what_became_of_an_offset(tmp_path: Path) -> None:
    place = place_at(tmp_path, BROKER_LOG)
    _copy(place, 0, 2)
    run_day(place, 1)
    assert _explained(place, 5) == [
        "offsets 4 to 7: in no copy since the run of 2024-05-01; 4 batches are held behind it"
    ]
    [held] = _explained(place, 9)
    assert held.endswith("behind_gap: held: offsets 4 to 7 before it are in no copy so far")

    _copy(place, 1)
    run_day(place, 2)

    assert _explained(place, 4)[1:] == [
        "offsets 4 to 7: missing since the run of 2024-05-01, taken by the run of 2024-05-02",
        "batch of producer 1, epoch 0, sequence 3: taken at offset 4",
    ]
    assert _explained(place, 9)[1].endswith("taken at offset 9")
