"""Workers, executors and drivers that are killed: a clear word, then the same bytes."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import Generic

import pytest
from rich.console import Console

from spark_jobs.driver.client import StepInterrupted, run_step, stop_driver
from spark_jobs.driver.protocol import StepAnswer, StepRequest
from spark_jobs.execution.options import SparkFailed
from spark_jobs.execution.python_worker import Summary, Task
from spark_jobs.execution.spark import Spark, Watch
from spark_jobs.flow import Step
from spark_jobs.lake.ledger import list_runs
from spark_jobs.progress import RunProgress
from spark_jobs.run import execute_run
from tests.faults.processes import below, called_with, kill
from tests.pipeline.index.objects import plain_object
from tests.pipeline.runs import CAPTURE, Place, day, place_at

TIMEOUT_S = 300
TRIES = 4


@dataclass(frozen=True)
class DeadlySpark(Spark):
    """A session whose workers die at the first task of every job that they have not died of yet.

    Work that usually runs `in_driver` runs in workers, too.
    """

    alive: Spark = field(default_factory=Spark)
    died_of: set[str] = field(default_factory=set)

    @property
    def parallelism(self) -> int:
        return self.alive.parallelism

    def run_tasks(
        self,
        function: Callable[[Task], Summary],
        tasks: Sequence[Task],
        *,
        watch: Watch = lambda _: None,
        in_driver: bool = False,
        description: str = "",
    ) -> list[Summary]:
        if tasks and function.__name__ not in self.died_of:
            self.died_of.add(function.__name__)
            return self.alive.run_tasks(_Deadly(function), tasks, watch=watch)
        return self.alive.run_tasks(function, tasks, watch=watch)


class _Deadly(Generic[Task, Summary]):
    def __init__(self, function: Callable[[Task], Summary]) -> None:
        self._function = function

    def __call__(self, task: Task) -> Summary:
        os.kill(os.getpid(), signal.SIGKILL)
        return self._function(task)


def _place(directory: Path, lake: str = "lake") -> Place:
    config = CAPTURE.replace("lake: lake", f"lake: {lake}") + "    markers: true\n"
    place = place_at(directory, config)
    for partition in range(0 if (directory / "capture").exists() else 2):
        place.arrive(f"dt=2024-05-01/orders-{partition}/a", plain_object(30))
    (directory / f"{lake}.yaml").write_text(config)
    return place


def _run(place: Place, spark: Spark, until: Step = Step.MATERIALISE) -> None:
    execute_run(place.settings, day(1), until=until, spark=spark, progress=RunProgress(Console(quiet=True)))


def _tree(directory: Path) -> dict[str, bytes]:
    files = (path for path in sorted(directory.rglob("*")) if path.is_file())
    return {str(path.relative_to(directory)): path.read_bytes() for path in files}


def test_a_run_whose_worker_is_killed_in_every_job_says_so_and_continues_from_there(
    tmp_path: Path, spark: Spark
) -> None:
    undisturbed, place = _place(tmp_path, "undisturbed"), _place(tmp_path)
    _run(undisturbed, spark)
    deadly, said = DeadlySpark(alive=spark), list[str]()

    while True:
        try:
            _run(place, deadly)
        except SparkFailed as error:
            said.append(str(error))
        else:
            break

    assert 5 <= len(said) <= len(deadly.died_of)  # jobs that run beside each other die together
    assert all("a Python worker was killed or crashed" in words for words in said)
    assert _tree(tmp_path / "lake/runs") == _tree(tmp_path / "undisturbed/runs")
    assert [line.attempts for line in list_runs(place.lake)] == [len(said) + 1]


def _tried(request: StepRequest) -> StepAnswer:
    """As a task does it, which tries again: what a killed driver had begun to start may hold its door."""
    for _ in range(TRIES - 1):
        with suppress(StepInterrupted):
            return run_step(request, log=print)
    return run_step(request, log=print)


def test_a_warm_driver_killed_in_a_step_and_between_steps_is_replaced(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    door = str(tmp_path_factory.mktemp("d"))  # short: the path of a socket has a limit
    monkeypatch.setenv("XDG_RUNTIME_DIR", door)
    _place(tmp_path)
    stage = StepRequest(
        config=str(tmp_path / "lake.yaml"), day=date(2024, 5, 1), step=Step.STAGE, more_steps_follow=True
    )
    try:
        with pytest.raises(StepInterrupted, match="the driver ended in the middle of 'index'"):
            run_step(
                replace(stage, step=Step.INDEX),
                log=lambda _: kill(called_with("spark_jobs.driver", door)),
            )
        assert _tried(stage).counts["objects"] == 2
        kill(called_with("spark_jobs.driver", door))
        assert _tried(stage).counts["objects"] == 2
        assert not _tried(stage).worked
    finally:
        stop_driver(stage)


def test_a_run_whose_executor_is_killed_does_not_even_fail(tmp_path: Path, spark: Spark) -> None:
    _run(_place(tmp_path, "undisturbed"), spark, Step.INDEX)
    _place(tmp_path)
    config = tmp_path / "lake.yaml"
    with config.open("a") as file:
        file.write("spark: {master: 'local-cluster[2,1,512]', conf: {spark.executor.memory: 512m}}\n")
    command = [sys.executable, "-m", "spark_jobs", "run", "--config", str(config), "--date", "2024-05-01"]
    process = subprocess.Popen([*command, "--until", "index"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    executors: list[int] = []
    deadline = time.monotonic() + TIMEOUT_S
    while not executors and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
        executors = below(called_with("CoarseGrainedExecutorBackend"), process.pid)
    kill(executors[:1])
    _, err = process.communicate(timeout=TIMEOUT_S)

    assert executors
    assert process.returncode == 0, err
    assert _tree(tmp_path / "lake/runs") == _tree(tmp_path / "undisturbed/runs")
