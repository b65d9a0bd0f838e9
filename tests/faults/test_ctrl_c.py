"""Ctrl-C, as a terminal sends it to every process of a run: one sentence, no process left, and it goes on."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.indexing.objects import plain_object
from tests.steps.nights import CAPTURE

SPLIT = "limits: {range_bytes: 1048576}\n"
"""Objects are read in pieces, so `index` needs Spark."""
MOMENTS = {"while Spark starts": 1.0, "while Spark works": 4.5}
"""Seconds after `stage`; wherever it is by then, the outcome has to be the same."""


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


@pytest.mark.parametrize("moment", MOMENTS)
def test_an_interrupted_run_says_so_in_a_sentence_and_goes_on_later(config: Path, moment: str) -> None:
    with _start(config) as run:
        assert run.stderr is not None
        assert run.stderr.readline().startswith("stage ")
        with pytest.raises(subprocess.TimeoutExpired):
            run.wait(MOMENTS[moment])
        os.killpg(run.pid, signal.SIGINT)
        said = run.communicate()[1]  # ends when no process of the run holds the pipe any more
    assert run.returncode == 130, said
    *before, last = said.splitlines()
    assert last == (
        "onceover: interrupted; steps that are done stay done; run the same command again to go on from there"
    )
    assert all(line.split()[0] in {"index", "rebuild", "admit"} for line in before), said
    with _start(config, "--until", "admit") as again:
        said = again.communicate()[1]
    assert again.returncode == 0, said
