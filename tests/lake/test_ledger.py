from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from spark_jobs.flow import Step
from spark_jobs.lake.file_store import FileStore
from spark_jobs.lake.ledger import Clock, Ledger, LedgerLine, RunStatus, list_runs
from spark_jobs.lake.lock import lake_lock
from spark_jobs.lake.object_store import ObjectStore
from tests.lake.runs import day, finish_run, inputs_of


def ticking() -> Clock:
    """A clock that moves on by one second with every look."""

    def moments() -> Iterator[datetime]:
        moment = datetime(2024, 5, 2, tzinfo=UTC)
        while True:
            yield moment
            moment += timedelta(seconds=1)

    look = moments()
    return lambda: next(look)


def test_a_run_leaves_its_times_and_counts(store: ObjectStore) -> None:
    ledger, inputs = Ledger(store, ticking()), inputs_of(store, 1)
    ledger.started(inputs)
    ledger.step_started(inputs.run_id, Step.STAGE)
    ledger.step_finished(inputs.run_id, Step.STAGE, {"objects": 3})
    ledger.done(inputs.run_id)
    line = ledger.read(inputs.run_id)
    assert line is not None
    assert (line.day, line.status, line.attempts) == (day(1), RunStatus.DONE, 1)
    assert (line.started_at, line.finished_at) == _seconds(0, 3)
    assert [(step.started_at, step.finished_at) for step in line.steps] == [_seconds(1, 2)]
    assert line.steps[0].counts == {"objects": 3}


def test_a_repeated_run_counts_its_attempts_and_keeps_what_was_done(lake: FileStore) -> None:
    ledger, inputs = Ledger(lake, ticking()), inputs_of(lake, 1)
    ledger.started(inputs)
    ledger.step_started(inputs.run_id, Step.STAGE)
    ledger.failed(inputs.run_id, "disk full")
    assert _only(lake).message == "disk full"
    ledger.started(inputs)
    line = _only(lake)
    assert (line.attempts, line.message, line.finished_at, len(line.steps)) == (2, "", "", 1)
    ledger.step_started(inputs.run_id, Step.STAGE)
    assert len(_only(lake).steps) == 1


def test_staging_is_over_before_the_run_has_a_line_and_is_noted_once(lake: FileStore) -> None:
    ledger, inputs = Ledger(lake, ticking()), inputs_of(lake, 1)
    ledger.started(inputs)
    ledger.staged(inputs.run_id, datetime(2024, 5, 1, 23, 59, 30, tzinfo=UTC), {"objects": 3})
    ledger.staged(inputs.run_id, datetime(2024, 5, 3, tzinfo=UTC), {"objects": 3})
    [line] = _only(lake).steps
    assert (line.step, line.counts) == (Step.STAGE, {"objects": 3})
    assert line.started_at == "2024-05-01T23:59:30.000+00:00"
    assert line.finished_at == _seconds(1, 1)[0]


def test_a_run_without_a_line_has_none(lake: FileStore) -> None:
    assert Ledger(lake).read("2024-05-01-unknown") is None
    assert list_runs(lake) == ()


def test_a_run_without_a_live_process_was_interrupted(lake: FileStore) -> None:
    Ledger(lake).started(inputs_of(lake, 1))
    with lake_lock(lake, purpose="run"):
        assert _only(lake).status is RunStatus.RUNNING
    assert _only(lake).status is RunStatus.INTERRUPTED


def test_whether_a_run_is_final_is_what_the_chain_says(lake: FileStore) -> None:
    """Killed between becoming final and saying so in the ledger."""
    Ledger(lake).started(inputs_of(lake, 1))
    finish_run(lake, 1, state="s1")
    assert _only(lake).status is RunStatus.FINAL


def test_a_run_that_a_backfill_replaced_is_shown_as_such(lake: FileStore) -> None:
    ledger = Ledger(lake, ticking())
    for manifest in ("old", "new"):
        ledger.started(inputs_of(lake, 1, manifest))
        finish_run(lake, 1, state="s1", manifest=manifest)
    assert [line.status for line in list_runs(lake)] == [RunStatus.REPLACED, RunStatus.FINAL]


def test_runs_are_listed_by_date(lake: FileStore) -> None:
    ledger = Ledger(lake, ticking())
    for number in (3, 1, 2):
        ledger.started(inputs_of(lake, number))
    assert [line.day for line in list_runs(lake)] == [day(1), day(2), day(3)]


def test_a_lost_ledger_costs_only_the_times(lake: FileStore) -> None:
    entry = finish_run(lake, 1, state="s1")
    assert entry.run_id not in [line.run_id for line in list_runs(lake)]
    Ledger(lake).started(inputs_of(lake, 1))
    assert _only(lake).status is RunStatus.FINAL


def _only(lake: ObjectStore) -> LedgerLine:
    (line,) = list_runs(lake)
    return line


def _seconds(first: int, second: int) -> tuple[str, str]:
    return f"2024-05-02T00:00:{first:02d}.000+00:00", f"2024-05-02T00:00:{second:02d}.000+00:00"
