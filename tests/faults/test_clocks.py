"""Clocks that are wrong: of the machine, of producers, of a file system, of another machine's lock."""

import os
from dataclasses import asdict
from datetime import UTC, date, datetime
from pathlib import Path

import pytest
from rich.console import Console

from spark_jobs.config.canonical import canonical_json
from spark_jobs.flow import Step
from spark_jobs.lake.file_store import FileStore
from spark_jobs.lake.layout import LOCKS, lock_key
from spark_jobs.lake.ledger import Ledger, list_runs
from spark_jobs.lake.lock import BEAT, Holder, lake_lock
from spark_jobs.lake.process_identity import ProcessIdentity
from spark_jobs.lake.run_folder import EMPTY_STATE, RunInputs
from spark_jobs.progress import RunProgress
from spark_jobs.run import execute_run
from tests.in_process import InProcess
from tests.pipeline.admitted import admit
from tests.pipeline.batches import batch
from tests.pipeline.runs import UNDATED, Place, place_at

FAR = datetime(2200, 1, 1, tzinfo=UTC).timestamp()
TIMES = (-(2**63), -1, 0, 2**62, 2**63 - 1)


def _undated(directory: Path) -> Place:
    place = place_at(directory, UNDATED)
    place.arrive("orders-0/a", batch(0) + batch(1))
    return place


@pytest.mark.parametrize("day", [date(1, 1, 1), date(1970, 1, 1), date(2200, 1, 1), date(9999, 12, 31)])
def test_a_run_of_a_date_far_off_gives_the_same_verdicts(day: date, tmp_path: Path) -> None:
    assert admit(_undated(tmp_path), day).verdicts() == ["accepted", "accepted"]


@pytest.mark.parametrize("seconds", [0.0, FAR])
def test_when_a_file_says_that_it_was_written_does_not_matter(seconds: float, tmp_path: Path) -> None:
    place = _undated(tmp_path)
    for path in (tmp_path / "capture").rglob("*"):
        os.utime(path, (seconds, seconds))
    assert admit(place, 1).verdicts() == ["accepted", "accepted"]


def test_records_of_any_time_are_decoded(tmp_path: Path) -> None:
    place = place_at(tmp_path, UNDATED)
    place.arrive("orders-0/a", b"".join(batch(seq, timestamp=time) for seq, time in enumerate(TIMES)))
    progress = RunProgress(Console(quiet=True))
    outcome = execute_run(
        place.settings, date(2024, 5, 1), until=Step.MATERIALISE, spark=InProcess(), progress=progress
    )
    counts = {done.step: done.counts for done in outcome.done}
    assert counts[Step.MATERIALISE]["records"] == len(TIMES)


def test_a_lock_from_a_machine_whose_clock_is_ahead_is_judged_by_its_heartbeat_alone(tmp_path: Path) -> None:
    lake = FileStore(str(tmp_path / "lake"))
    elsewhere = ProcessIdentity(host="elsewhere", realm="another machine", pid=1, started="1")
    holder = Holder(number=1, purpose="run", token="t", process=elsewhere)
    lake.put(lock_key(1), canonical_json(asdict(holder)))
    lake.put(lock_key(1, BEAT), b"1")
    for path in (tmp_path / "lake" / LOCKS).iterdir():
        os.utime(path, (FAR, FAR))
    with lake_lock(lake, purpose="next run", lease_s=0.4) as lock:
        assert lock.holder.number == 2


def test_a_clock_that_is_set_back_while_a_run_works_changes_only_its_times(tmp_path: Path) -> None:
    lake = FileStore(str(tmp_path / "lake"))
    times = iter(datetime(2024, 5, day, tzinfo=UTC) for day in range(9, 0, -1))
    ledger = Ledger(lake, clock=lambda: next(times))
    inputs = RunInputs(day=date(2024, 5, 1), manifest="m", config="c", state_in=EMPTY_STATE)
    ledger.started(inputs)
    ledger.step_started(inputs.run_id, Step.INDEX)
    ledger.step_finished(inputs.run_id, Step.INDEX, {"batches": 1})
    ledger.done(inputs.run_id)
    [line] = list_runs(lake)
    assert line.started_at > line.finished_at
    assert line.steps[0].counts == {"batches": 1}
