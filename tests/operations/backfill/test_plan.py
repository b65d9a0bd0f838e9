"""A plan says which days would run again and why, and writes nothing."""

import os
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.lake.manifest import Replay
from spark_jobs.lake.replays import put_decision
from spark_jobs.lake.run_folder import RunFolder, read_inputs
from spark_jobs.operations.backfill import next_day, plan_backfill
from spark_jobs.pipeline.stage.backfill_request import UnfitRequest
from tests.operations.backfill.lakes import backfill, chain_of, plan, request, tree, whys
from tests.pipeline.runs import BROKER_LOG, CAPTURE, UNDATED, Place, day, place_at

SEGMENT = "orders-0/00000000000000000000.log"


@pytest.fixture
def lake(tmp_path: Path) -> Place:
    """Three final runs with an object of two topics each."""
    place = place_at(tmp_path)
    for number in (1, 2, 3):
        for topic in ("orders", "clicks"):
            place.arrive(f"dt=2024-05-0{number}/{topic}-0/a")
        place.finish(number)
    return place


def _objects(place: Place, number: int, **choice: Any) -> list[tuple[str, ...]]:
    days = plan(place, number, **choice).days
    return [reason.objects for each in days for reason in each.reasons if reason.objects]


def test_days_that_hold_what_their_sources_hold_have_nothing_to_do(lake: Place) -> None:
    found = plan(lake, 1, 3)
    assert whys(found) == {1: [], 2: [], 3: []}
    assert not found.changes
    assert next_day(lake.settings, request(1, 3)) is None


def test_an_object_that_came_after_its_run_is_new_and_later_days_may_follow(lake: Place) -> None:
    lake.arrive("dt=2024-05-02/orders-0/b")
    assert whys(plan(lake, 2)) == {2: ["new"], 3: ["if state"]}
    assert _objects(lake, 2) == [("gateway/dt=2024-05-02/orders-0/b",)]
    assert next_day(lake.settings, request(2)) == day(2)


def test_a_condition_names_the_day_that_it_depends_on(lake: Place) -> None:
    lake.arrive("dt=2024-05-02/orders-0/b")
    last = plan(lake, 2).days[-1]
    assert [reason.sentence for reason in last.reasons] == ["if the state of 2024-05-02 changes"]
    assert not last.changes


def test_an_object_that_a_later_run_took_is_late_and_that_run_has_to_do_without(lake: Place) -> None:
    lake.arrive("dt=2024-05-01/orders-0/b")
    lake.finish(4)
    assert whys(plan(lake, 1)) == {1: ["late"], 2: ["if state"], 3: ["if state"], 4: ["moved"]}


def test_an_object_with_other_bytes_has_changed(lake: Place) -> None:
    lake.arrive("dt=2024-05-01/orders-0/a", b"of another size")
    assert whys(plan(lake, 1))[1] == ["changed"]


def test_other_bytes_of_the_same_size_are_noticed(lake: Place) -> None:
    file = Path(lake.settings.sources[0].root, "dt=2024-05-01/orders-0/a")
    file.write_bytes(bytes(reversed(file.read_bytes())))
    assert whys(plan(lake, 1))[1] == ["changed"]


def test_a_touched_object_with_the_same_bytes_has_not_changed(lake: Place) -> None:
    os.utime(Path(lake.settings.sources[0].root, "dt=2024-05-01/orders-0/a"), (1, 1))
    assert whys(plan(lake, 1))[1] == []


def test_an_object_that_its_source_has_lost_stays_in_its_run(lake: Place) -> None:
    Path(lake.settings.sources[0].root, "dt=2024-05-01/orders-0/a").unlink()
    (found,) = plan(lake, 1).days
    assert (found.reasons, found.missed) == ((), 1)


def test_an_object_that_its_source_has_lost_leaves_if_that_is_wanted(lake: Place) -> None:
    Path(lake.settings.sources[0].root, "dt=2024-05-01/orders-0/a").unlink()
    assert whys(plan(lake, 1, drop_vanished=True))[1] == ["vanished"]


def test_a_lost_object_without_a_copy_leaves_in_any_case(tmp_path: Path) -> None:
    place = place_at(tmp_path, CAPTURE + "    immutable: true\n")
    file = place.arrive("dt=2024-05-01/orders-0/a")
    place.finish(1)
    file.unlink()
    assert whys(plan(place, 1)) == {1: ["vanished"]}


def test_other_topics_are_not_looked_at(lake: Place) -> None:
    lake.arrive("dt=2024-05-02/orders-0/b")
    lake.arrive("dt=2024-05-02/clicks-0/b")
    assert _objects(lake, 2, topics=("orders",)) == [("gateway/dt=2024-05-02/orders-0/b",)]
    assert whys(plan(lake, 2, topics=("payments",))) == {2: []}


def test_other_sources_are_not_looked_at(tmp_path: Path) -> None:
    second = (
        CAPTURE.partition("sources:\n")[2]
        .replace("gateway", "second")
        .replace("capture\n    d", "more\n    d")
    )
    place = place_at(tmp_path, CAPTURE + second)
    (tmp_path / "more").mkdir()
    place.arrive("dt=2024-05-01/orders-0/a")
    place.finish(1)
    place.arrive("dt=2024-05-01/orders-0/b")
    assert whys(plan(place, 1, sources=("second",))) == {1: []}
    assert whys(plan(place, 1, sources=("gateway",))) == {1: ["new"]}


def test_a_source_that_the_configuration_does_not_have_is_refused(lake: Place) -> None:
    with pytest.raises(UnfitRequest, match="has no source 'gatewya', only gateway"):
        plan(lake, 1, sources=("gatewya",))


def test_a_day_without_a_run_is_put_in_if_it_has_something_to_take(lake: Place) -> None:
    lake.arrive("dt=2024-05-04/orders-0/a")
    lake.finish(6)
    assert whys(plan(lake, 4, 6)) == {4: ["no run yet", "late"], 5: [], 6: ["moved"]}


def test_days_after_the_newest_run_are_no_backfill(lake: Place) -> None:
    lake.arrive("dt=2024-05-04/orders-0/a")
    assert whys(plan(lake, 3, 9)) == {3: []}
    assert plan(lake, 4, 9).days == ()


def test_years_without_a_run_are_hardly_meant(lake: Place) -> None:
    asked = request(1)
    with pytest.raises(UnfitRequest, match="request fewer"):
        plan_backfill(lake.settings, type(asked)(first=day(1).replace(year=1970), last=asked.last))


def test_days_asked_for_run_again_under_another_configuration_others_only_if_they_must(lake: Place) -> None:
    changed = place_at(lake.directory, CAPTURE + "kafka: {transaction_version: TV1}\n")
    assert whys(plan(changed, 2)) == {2: ["config"], 3: ["if state"]}


def test_a_run_that_does_not_follow_from_the_one_before_comes_first_whatever_is_asked(lake: Place) -> None:
    lake.arrive("dt=2024-05-01/orders-0/b")
    lake.finish(1, backfill=True, state="other")
    assert whys(plan(lake, 3)) == {2: ["state"], 3: ["if state"]}
    assert next_day(lake.settings, request(3)) == day(2)


def test_objects_that_arrive_meanwhile_do_not_turn_a_backfill_back_but_come_in_with_its_next_day(
    lake: Place,
) -> None:
    lake.arrive("dt=2024-05-01/orders-0/b")
    assert next_day(lake.settings, request(1, 3)) == day(1)
    assert next_day(lake.settings, request(1, 3), after=day(1)) == day(2)


def test_without_dates_an_object_stays_with_the_run_that_took_it(tmp_path: Path) -> None:
    place = place_at(tmp_path, UNDATED)
    place.arrive("orders-0/a")
    place.finish(1)
    place.arrive("orders-0/b")
    place.finish(2)
    place.arrive("orders-0/c")
    assert whys(plan(place, 1, 2)) == {1: [], 2: []}
    place.arrive("orders-0/a", b"other bytes")
    assert whys(plan(place, 1, 2)) == {1: ["changed"], 2: ["if state"]}


def test_a_log_directory_that_is_copied_over_itself_keeps_what_its_runs_had(tmp_path: Path) -> None:
    place = place_at(tmp_path, BROKER_LOG)
    place.arrive(SEGMENT, b"one")
    place.finish(1)
    place.arrive(SEGMENT, b"one and two")
    place.finish(2)
    place.arrive(SEGMENT, b"one, two and three")
    assert whys(plan(place, 1, 2)) == {1: [], 2: []}


def test_a_run_of_a_source_that_is_gone_from_the_configuration_cannot_be_run_again(lake: Place) -> None:
    renamed = place_at(lake.directory, CAPTURE.replace("gateway", "gate"))
    with pytest.raises(UnfitRequest, match="'gateway', which is no longer configured"):
        plan(renamed, 1)


def test_planning_writes_nothing(lake: Place) -> None:
    lake.arrive("dt=2024-05-02/orders-0/b")
    lake.arrive("dt=2024-05-01/orders-0/a", b"other bytes")
    before = tree(lake.directory)
    assert plan(lake, 1, 3).changes
    assert tree(lake.directory) == before


def test_a_day_whose_copies_have_expired_cannot_run_again_unless_its_source_has_them(lake: Place) -> None:
    (entry,) = [entry for entry in chain_of(lake).current.values() if entry.day == day(1)]
    RunFolder(lake.lake, read_inputs(lake.lake, entry.run_id)).expire()
    for copy in list(lake.lake.list("objects")):
        lake.lake.delete(copy.key)
    lake.arrive("dt=2024-05-01/orders-0/b")
    assert whys(plan(lake, 1))[1] == ["new"]
    with pytest.raises(UnfitRequest, match=r"copies of 1 objects have expired, such as gateway/.*clicks-0/a"):
        plan(lake, 1, topics=("orders",))
    with pytest.raises(UnfitRequest, match="the day cannot run again"):
        backfill(lake, 1, topics=("orders",))


def test_a_decision_to_replay_makes_the_chosen_topics_of_a_day_run_again(lake: Place) -> None:
    origin = chain_of(lake).current[day(1)].run_id
    decided = Replay(
        decision="d1",
        way="arrive",
        kind="rejected",
        origin=origin,
        topic="orders",
        partition=0,
        source="gateway",
        path="dt=2024-05-01/orders-0/a",
        position=0,
        arrival=0,
        size=1,
        sha256="0" * 64,
        why="a person says so",
    )
    put_decision(lake.lake, decided)
    assert whys(plan(lake, 2)) == {2: ["replays"], 3: ["if state"]}
    assert whys(plan(lake, 2, topics=("clicks",))) == {2: []}
    assert whys(plan(lake, 1)) == {1: []}
