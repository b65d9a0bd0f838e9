"""The lake does not depend on the number of cores: tasks are divided by it, results are not."""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from spark_jobs.sample.story import RUN_DATES
from tests.execution.sample_lake import sample_lake, schedule_everything
from tests.golden.digests import Digests
from tests.in_process import InProcess


@dataclass(frozen=True)
class Slots(InProcess):
    """Work is divided for `slots` tasks at once."""

    slots: int = 1

    @property
    def parallelism(self) -> int:
        return self.slots


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Digests:
    with pytest.MonkeyPatch.context() as patch:
        schedule_everything(patch)
        return sample_lake(tmp_path_factory.mktemp("two"), Slots(slots=2))


@pytest.mark.parametrize("slots", [1, 7])
def test_the_number_of_slots_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, expected: Digests, slots: int
) -> None:
    schedule_everything(monkeypatch)
    assert sample_lake(tmp_path, Slots(slots=slots)) == expected


def test_the_cores_of_a_local_master_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each in a process of its own: a process has one session."""
    schedule_everything(monkeypatch)
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.execution.sample_lake", tmp_path / master, master],
            stdout=subprocess.PIPE,
        )
        for master in ("local[1]", "local[3]")
    ]
    expected = sample_lake(tmp_path / "in_process", Slots(slots=2), RUN_DATES[:1])
    for found in [process.communicate()[0] for process in processes]:
        assert json.loads(found) == expected
