"""A run can be interrupted and repeated at will: the same bytes, nothing twice, one at a time."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from spark_jobs.execution.spark import Spark
from spark_jobs.flow import Step
from spark_jobs.lake.errors import LakeBusy
from spark_jobs.lake.ledger import RunStatus, list_runs
from spark_jobs.lake.lock import lake_lock
from spark_jobs.pipeline.context import RunContext, StepResult
from spark_jobs.pipeline.rebuild import step as rebuild
from spark_jobs.progress import RunProgress
from spark_jobs.run import RunOutcome, execute_run
from tests.in_process import InProcess
from tests.pipeline.index.objects import nested_object, plain_object
from tests.pipeline.runs import CAPTURE, Place, day, place_at

CONFIG = CAPTURE + "limits: {range_bytes: 4096}\nspark: {master: 'local[2]'}\n"
TIMEOUT_S = 300
NEVER_DONE = (
    "import time; from spark_jobs.cli import main; from spark_jobs.flow import Step;"
    "from spark_jobs.lake.run_folder import RunFolder; finish = RunFolder.finish\n"
    "def wait(self, step, **result):\n"
    "    return time.sleep(3600) if step is Step.INDEX else finish(self, step, **result)\n"
    "RunFolder.finish = wait; main()"
)
"""The command, which waits for its end before it calls `index` done: however late the kill, it is in time."""


def _place(directory: Path, lake: str = "lake", batches: int = 200) -> Place:
    """A lake for the one run that is in `directory`, and its configuration file."""
    config = CONFIG.replace("lake: lake", f"lake: {lake}")
    place = place_at(directory, config)
    if not (directory / "capture").exists():
        for partition in range(4):
            place.arrive(f"dt=2024-05-01/orders-{partition}/a", plain_object(batches))
            place.arrive(f"dt=2024-05-01/orders-{partition}/b", nested_object(20))
    _config_file(place).write_text(config)
    return place


def _config_file(place: Place) -> Path:
    return Path(f"{place.settings.lake}.yaml")


def _run(place: Place, spark: Spark, until: Step = Step.INDEX) -> RunOutcome:
    progress = RunProgress(Console(quiet=True))
    return execute_run(place.settings, day(1), until=until, spark=spark, progress=progress)


def _tree(directory: Path, *left_out: str) -> dict[str, bytes]:
    """Every file below `directory` with its bytes."""
    files = (path for path in sorted(directory.rglob("*")) if path.is_file())
    named = ((str(path.relative_to(directory)), path) for path in files)
    return {name: path.read_bytes() for name, path in named if not name.startswith(left_out)}


def _wait_until(holds: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not holds():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)


def _start(place: Place, *program: str) -> subprocess.Popen[bytes]:
    """The command itself, or a `program` that takes its arguments, in a process that can be killed."""
    arguments = ["--config", str(_config_file(place)), "--date", "2024-05-01", "--until", "index"]
    command = [sys.executable, *(program or ("-m", "spark_jobs")), "run", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def test_a_run_does_its_steps_and_says_so_in_the_ledger(tmp_path: Path, spark: Spark) -> None:
    place = _place(tmp_path)

    outcome = _run(place, spark)

    assert [done.step for done in outcome.done] == [Step.STAGE, Step.INDEX]
    [line] = list_runs(place.lake)
    assert (line.run_id, line.status, line.attempts) == (outcome.run_id, RunStatus.DONE, 1)
    assert [step.step for step in line.steps] == [Step.STAGE, Step.INDEX]
    assert [step.counts["batches"] for step in line.steps if step.step is Step.INDEX] == [880]


def test_the_same_run_again_changes_nothing_and_needs_no_spark(tmp_path: Path, spark: Spark) -> None:
    place = _place(tmp_path)
    first = _run(place, spark)
    before = _tree(tmp_path / "lake", "locks")

    again = _run(place, Spark("local[no such number]"))

    assert not again.worked
    assert (again.run_id, again.done) == (first.run_id, first.done)
    assert _tree(tmp_path / "lake", "locks") == before


def test_another_lake_gets_the_same_bytes(tmp_path: Path, spark: Spark) -> None:
    first, second = (_run(_place(tmp_path, lake), spark) for lake in ("one", "two"))

    assert first == second
    assert _tree(tmp_path / "one/runs") == _tree(tmp_path / "two/runs")


def test_a_run_killed_in_index_and_repeated_gives_the_bytes_of_an_undisturbed_one(
    tmp_path: Path, spark: Spark
) -> None:
    expected = _run(_place(tmp_path, "undisturbed", batches=3000), spark)
    killed, runs = _place(tmp_path, "killed"), tmp_path / "killed/runs"
    process = _start(killed, "-c", NEVER_DONE)
    try:
        _wait_until(lambda: any(runs.glob("*/index/*/*/*.parquet")), process)
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()
    assert not any(runs.glob("*/index/_done.json"))
    assert [line.status for line in list_runs(killed.lake)] == [RunStatus.INTERRUPTED]

    outcome = _run(killed, spark)

    assert outcome == expected
    assert _tree(runs) == _tree(tmp_path / "undisturbed/runs")
    assert [(line.status, line.attempts) for line in list_runs(killed.lake)] == [(RunStatus.DONE, 2)]


def test_of_two_runs_at_once_one_wins_and_the_other_says_who(tmp_path: Path, spark: Spark) -> None:
    place = _place(tmp_path)

    with lake_lock(place.lake, purpose="run of 2024-05-01"), pytest.raises(LakeBusy) as refused:
        _run(place, spark)

    assert "run of 2024-05-01" in str(refused.value)
    assert _run(place, spark).worked


def test_the_command_says_what_went_wrong_and_whether_to_try_again(tmp_path: Path) -> None:
    place = _place(tmp_path)

    with lake_lock(place.lake, purpose="run of 2024-05-01"):
        process = _start(place)
        out, err = process.communicate()

    assert process.returncode == 75
    assert out == b""
    assert b"holds the lock of this lake" in err


@pytest.mark.parametrize("fails", [False, True])
def test_a_step_begins_when_it_is_prepared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    """Two threads that import the same library at once may each see half of it."""
    happened: list[str] = []
    run = rebuild.run

    def prepare() -> None:
        time.sleep(0.5)  # the step before is done long before that
        happened.append("prepared")
        if fails:
            raise ImportError("is reported by the step itself")

    def begin(context: RunContext) -> StepResult:
        happened.append("begun")
        return run(context)

    monkeypatch.setattr(rebuild, "prepare", prepare, raising=False)
    monkeypatch.setattr(rebuild, "run", begin)
    progress = RunProgress(Console(quiet=True))
    place = _place(tmp_path)
    execute_run(place.settings, day(1), until=Step.ADMIT, spark=InProcess(), progress=progress)
    assert happened == ["prepared", "begun"]
