"""Ctrl-C, as a terminal sends it to every process of a run: one sentence, no process left, and it
continues.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from spark_jobs.flow import Step
from tests.pipeline.index.objects import plain_object
from tests.pipeline.runs import CAPTURE

SPLIT = "limits: {range_bytes: 1048576}\n"
"""Objects are read in pieces, so `index` needs Spark."""
MOST_SECONDS = 600
ATTEMPTS = 3
"""A run may end before it is interrupted: then it is made again."""


def _at_once(_: "subprocess.Popen[str]") -> None:
    """Right behind `stage`: what the next steps need is being imported."""


def _when_spark_starts(run: "subprocess.Popen[str]") -> None:
    _await_process(run, "org.apache.spark")


def _when_spark_works(run: "subprocess.Popen[str]") -> None:
    _await_process(run, "pyspark.daemon")


def _behind_index(run: "subprocess.Popen[str]") -> None:
    """Spark is there and has nothing to do for a moment."""
    assert run.stderr is not None
    assert run.stderr.readline().split()[:1] in ([], ["index"])


MOMENTS = [_at_once, _when_spark_starts, _when_spark_works, _behind_index]
"""Awaited by what can be seen of the run; wherever it is when the signal arrives, the outcome is the same."""


def _await_process(run: "subprocess.Popen[str]", wanted: str) -> None:
    """Until a process of the run's session has `wanted` in its command line."""
    end = time.monotonic() + MOST_SECONDS
    while not any(wanted in command for command in _commands(run.pid)):
        if run.poll() is not None:
            return
        assert time.monotonic() < end, f"no {wanted}"
        time.sleep(0.05)


def _commands(session: int) -> Iterator[str]:
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended meanwhile
            if os.getsid(int(process.name)) == session:
                yield (process / "cmdline").read_bytes().decode(errors="replace")


@pytest.fixture
def config(tmp_path: Path) -> Path:
    data = plain_object(20_000) * 4
    for partition in range(4):
        file = tmp_path / "capture" / "dt=2024-05-01" / f"orders-{partition}" / "a"
        file.parent.mkdir(parents=True)
        file.write_bytes(data)
    path = tmp_path / "onceover.yaml"
    path.write_text(CAPTURE + SPLIT)
    return path


def _start(config: Path, *more: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "spark_jobs", "run", "--config", str(config), "--date", "2024-05-01"]
    pipe = subprocess.PIPE
    return subprocess.Popen([*command, *more], stdout=pipe, stderr=pipe, text=True, start_new_session=True)


def _interrupted(config: Path, moment: Callable[["subprocess.Popen[str]"], None]) -> tuple[int, str]:
    """The exit code of a run that is interrupted at the moment, and what it prints behind `stage`."""
    with _start(config) as run:
        assert run.stderr is not None
        assert run.stderr.readline().startswith("stage ")
        moment(run)
        with suppress(ProcessLookupError):
            os.killpg(run.pid, signal.SIGINT)
        said = run.communicate()[1]  # ends when no process of the run holds the pipe any more
    return run.returncode, said


@pytest.mark.parametrize("moment", MOMENTS)
def test_an_interrupted_run_says_so_in_a_sentence_and_continues_later(
    config: Path, moment: Callable[["subprocess.Popen[str]"], None]
) -> None:
    for _ in range(ATTEMPTS):
        code, said = _interrupted(config, moment)
        if code:
            break
        shutil.rmtree(config.parent / "lake")  # the run has ended before the signal arrived
    assert code == 130, said
    *before, last = said.splitlines()
    assert last == (
        "onceover: interrupted; steps that are done stay done; run the same command again to continue from "
        "there"
    )
    assert {line.split()[0] for line in before} <= set(Step), said
    with _start(config, "--until", "admit") as again:
        said = again.communicate()[1]
    assert again.returncode == 0, said
