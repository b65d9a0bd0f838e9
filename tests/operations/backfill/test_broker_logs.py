"""Offsets of a broker's log are its own: a backfill ends where the states meet again."""

import shutil
from pathlib import Path

import pytest

from spark_jobs.operations.relocate import relocate
from tests.operations.backfill.lakes import backfill, chain_of, current_run, plan, run_day, whys
from tests.pipeline.admitted import ORDERS
from tests.pipeline.batches import batch
from tests.pipeline.runs import CAPTURE, Place, day, place_at

CONFIG = CAPTURE.replace("capture", "broker-log")
SEGMENT = "orders-0/00000000000000000000.log"
RUN_DATES = (1, 2, 3)


def _log(end_offset: int) -> bytes:
    return b"".join(batch(offset, at=offset, leader_epoch=0) for offset in range(end_offset))


@pytest.fixture(scope="module")
def three_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every run the log was copied whole, with two more batches."""
    place = place_at(tmp_path_factory.mktemp("lake"), CONFIG)
    for number in RUN_DATES:
        place.arrive(f"dt=2024-05-0{number}/broker-1/{SEGMENT}", _log(2 * number))
        run_day(place, number)
    return place.directory


@pytest.fixture
def lake(three_runs: Path, tmp_path: Path) -> Place:
    place = place_at(shutil.copytree(three_runs, tmp_path / "place"), CONFIG)
    relocate(place.settings)
    return place


def _ends(place: Place) -> list[int]:
    return [current_run(place, number).state().end_offset for number in RUN_DATES]


def test_another_copy_of_what_is_known_changes_its_own_day_only(lake: Place) -> None:
    lake.arrive(f"dt=2024-05-01/broker-2/{SEGMENT}", _log(2))
    assert backfill(lake, 1) == [day(1)]
    assert sorted(current_run(lake, 1).verdicts()) == ["accepted"] * 2 + ["overlap"] * 2
    assert chain_of(lake).stale() == ()


def test_a_copy_that_reaches_further_changes_the_next_day_too_but_not_the_one_after(lake: Place) -> None:
    lake.arrive(f"dt=2024-05-01/broker-1/{SEGMENT}", _log(3))
    assert whys(plan(lake, 1)) == {1: ["changed"], 2: ["if state"], 3: ["if state"]}
    assert backfill(lake, 1) == [day(1), day(2)]
    assert _ends(lake) == [3, 4, 6]
    assert current_run(lake, 2).partitions()[ORDERS]["start_offset"] == 3


def test_what_is_as_it_was_before_is_the_run_that_it_was_before(lake: Place) -> None:
    first = [entry.run_id for entry in chain_of(lake).current.values()]
    lake.arrive(f"dt=2024-05-01/broker-1/{SEGMENT}", _log(3))
    backfill(lake, 1)
    lake.arrive(f"dt=2024-05-01/broker-1/{SEGMENT}", _log(2))
    assert backfill(lake, 1) == [day(1), day(2)]
    assert [entry.run_id for entry in chain_of(lake).current.values()] == first
    assert _ends(lake) == [2, 4, 6]


def test_leader_epochs_of_a_brokers_log_stay_its_own(lake: Place) -> None:
    lake.arrive(f"dt=2024-05-02/broker-1/{SEGMENT}", _log(3))
    backfill(lake, 2)
    assert [len(current_run(lake, number).state().leader_epochs) for number in RUN_DATES] == [1, 1, 1]
