"""What a person takes out of quarantine comes in once, is judged as a broker would, and leaves a trace."""

from pathlib import Path
from typing import Any

import pytest

from spark_jobs.config.settings import Settings
from spark_jobs.flow import Step
from spark_jobs.lake.manifest import read_run_manifest
from spark_jobs.lake.stores import open_lake
from spark_jobs.operations.replay import NotToReplay, Selection, decide, list_choices
from spark_jobs.operations.rollback import roll_back
from tests.operations.replay.runs import Shop, rows_of, run
from tests.pipeline.batches import NOON, batch
from tests.pipeline.runs import day

pytestmark = pytest.mark.usefixtures("great_expectations")

FITS, UNFIT = b'{"amount": 1, "note": "x"}', b'{"amount": 2}'
DAY_MS = 86_400_000
WHY = "an order needs no note"


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


def _amounts(settings: Settings) -> list[tuple[Any, ...]]:
    return [(row["offset"], row["amount"], row["run_date"].day) for row in rows_of(settings, "orders")]


def _verdicts(settings: Settings, number: int) -> list[tuple[str, str]]:
    rows = rows_of(settings, "batches", "onceover")
    return [(row["path"].split("/")[0], row["verdict"]) for row in rows if row["run_date"] == day(number)]


def _unfit_run(shop: Shop) -> str:
    """The second of three records does not fit."""
    shop.arrive(1, batch(0, value=FITS), batch(1, value=UNFIT), batch(2, value=FITS))
    return run(shop.settings(), 1).run_id


def test_an_unfit_value_is_published_once_its_schema_is_right(shop: Shop) -> None:
    origin = _unfit_run(shop)
    fixed = shop.settings("[]")
    choices, replays = decide(fixed, Selection(run_id=origin), why=WHY)
    assert [(each.way, each.refusal) for each in choices] == [("decode", "")]
    outcome = run(fixed, 2)
    assert _amounts(fixed) == [(0, 1, 1), (2, 1, 1), (1, 2, 2)]
    manifest = read_run_manifest(open_lake(fixed), outcome.run_id)
    assert manifest.replays == tuple(replays)
    assert (manifest.replays[0].why, manifest.replays[0].origin) == (WHY, origin)
    counts = next(done.counts for done in outcome.done if done.step is Step.MATERIALISE)
    assert (counts["replayed"], counts["records"], counts["unfit"]) == (1, 1, 0)


def test_replaying_twice_adds_nothing_twice(shop: Shop) -> None:
    selection = Selection(run_id=_unfit_run(shop))
    fixed = shop.settings("[]")
    decide(fixed, selection, why=WHY)
    choices, replays = decide(fixed, selection, why="again")
    assert replays == []
    assert choices[0].refusal == "it was already chosen for the next run"
    second = run(fixed, 2).run_id
    choices, replays = decide(fixed, selection, why="and again")
    assert (replays, choices[0].refusal) == ([], f"run {second} has replayed it")
    run(fixed, 3)
    assert [row["offset"] for row in rows_of(fixed, "orders")] == [0, 2, 1]


def test_what_still_does_not_fit_is_in_quarantine_again_and_can_be_chosen_again(shop: Shop) -> None:
    first = _unfit_run(shop)
    decide(shop.settings(), Selection(run_id=first), why="hope")
    second = run(shop.settings(), 2).run_id
    assert [row["offset"] for row in rows_of(shop.settings(), "orders")] == [0, 2]
    fixed = shop.settings("[]")
    [choice] = list_choices(fixed, Selection(run_id=second, kind=None, topic="orders"))
    assert (choice.row["offset"], choice.row["bytes"], choice.way) == (1, UNFIT, "decode")
    decide(fixed, Selection(run_id=second), why=WHY)
    run(fixed, 3)
    assert _amounts(fixed) == [(0, 1, 1), (2, 1, 1), (1, 2, 3)]


def test_a_run_taken_back_gives_back_what_it_took_up(shop: Shop) -> None:
    selection = Selection(run_id=_unfit_run(shop))
    fixed = shop.settings("[]")
    decide(fixed, selection, why=WHY)
    roll_back(fixed, run(fixed, 2).run_id)
    assert [row["offset"] for row in rows_of(fixed, "orders")] == [0, 2]
    run(fixed, 3)
    assert _amounts(fixed) == [(0, 1, 1), (2, 1, 1), (1, 2, 3)]


def test_records_of_one_batch_that_are_chosen_one_by_one_come_in_order(shop: Shop) -> None:
    shop.arrive(1, batch(0, count=3, value=UNFIT))
    origin = run(shop.settings(), 1).run_id
    fixed = shop.settings("[]")
    for offset in (2, 0):
        decide(fixed, Selection(run_id=origin, offset=offset), why=WHY)
    run(fixed, 2)
    assert _amounts(fixed) == [(0, 2, 2), (2, 2, 2)]


def test_a_rejected_batch_arrives_anew_and_gets_a_broker_s_verdict(shop: Shop) -> None:
    """The gap has filled since, so the first is taken now; the second is of an older epoch for ever."""
    shop.arrive(1, batch(0), batch(2), batch(0, pid=7, epoch=3), batch(1, pid=7, epoch=2), topic="t")
    settings = shop.settings()
    origin = run(settings, 1).run_id
    alive = NOON + 2 * DAY_MS
    shop.arrive(2, batch(1, timestamp=alive), batch(1, pid=7, epoch=3, timestamp=alive), topic="t")
    run(settings, 2)
    choices, _ = decide(settings, Selection(run_id=origin), why="the gateway sent it late")
    assert [(each.row["verdict"], each.way) for each in choices] == [
        ("out_of_order", "arrive"),
        ("fenced", "arrive"),
    ]
    shop.arrive(3, batch(3), topic="t")
    run(settings, 3)
    assert sorted(_verdicts(settings, 3)) == [
        ("dt=2024-05-03", "accepted"),
        ("replay", "accepted"),
        ("replay", "fenced"),
    ]
    rows = [(row["offset"], row["sequence"]) for row in rows_of(settings, "t") if row["producer_id"] == 1]
    assert rows == [(0, 0), (2, 1), (4, 2), (5, 3)]


def test_a_batch_beyond_a_limit_comes_in_once_the_limit_is_raised(shop: Shop) -> None:
    large = batch(0, value=b"x" * 5000)
    shop.arrive(1, large, topic="t")
    small = shop.settings(limits="max_batch_bytes: 4KiB")
    origin = run(small, 1).run_id
    [row] = rows_of(small, "quarantine", "onceover")
    assert (row["kind"], row["bytes"]) == ("corrupt", None)
    settings = shop.settings()
    decide(settings, Selection(run_id=origin), why="the limit was too low")
    run(settings, 2)
    assert [row["value"] for row in rows_of(settings, "t")] == [b"x" * 5000]


def test_a_batch_that_was_taken_but_not_readable_keeps_its_offset(shop: Shop) -> None:
    shop.arrive(1, batch(0, count=3), batch(3), topic="t")
    small = shop.settings(limits="records_per_batch: 2")
    origin = run(small, 1).run_id
    assert [row["offset"] for row in rows_of(small, "t")] == [3]
    settings = shop.settings()
    [choice] = list_choices(settings, Selection(run_id=origin))
    assert (choice.row["kind"], choice.way) == ("corrupt", "decode")
    decide(settings, Selection(run_id=origin), why="the limit was too low")
    run(settings, 2)
    assert [row["offset"] for row in rows_of(settings, "t")] == [3, 0, 1, 2]


def test_what_waits_comes_by_itself(shop: Shop) -> None:
    shop.arrive(1, batch(0, txn=True), topic="t")
    settings = shop.settings()
    origin = run(settings, 1).run_id
    choices, replays = decide(settings, Selection(run_id=origin), why="impatience")
    assert replays == []
    assert {each.refusal for each in choices} == {
        "a later run takes it once its transaction, or one before it, is decided"
    }


def test_a_run_that_does_not_speak_for_its_date_has_nothing_to_give(shop: Shop) -> None:
    origin = _unfit_run(shop)
    settings = shop.settings()
    roll_back(settings, origin)
    with pytest.raises(NotToReplay, match="is not the current run of its date"):
        decide(settings, Selection(run_id=origin), why=WHY)


def test_a_decision_is_void_once_its_run_is_replaced(shop: Shop) -> None:
    """The run in its place has the value in its table already."""
    origin = _unfit_run(shop)
    fixed = shop.settings("[]")
    decide(fixed, Selection(run_id=origin), why=WHY)
    roll_back(fixed, origin)
    run(fixed, 1)
    run(fixed, 2)
    assert _amounts(fixed) == [(0, 1, 1), (1, 2, 1), (2, 1, 1)]
