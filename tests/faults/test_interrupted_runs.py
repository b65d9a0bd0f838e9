"""A run that ends at any moment, or finds no space at any write, and is repeated, yields the same tables.

With ONCEOVER_EVERY_FAULT=1 every change of both runs is such a moment; else those that have a name here,
where the process is really killed.
"""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from tests.faults.run_server import FAILED, Answer, Request
from tests.faults.writes import kind_of

EVERY = bool(os.environ.get("ONCEOVER_EVERY_FAULT"))
NAMED = (
    "put_if_absent locks/*.json",
    "put_if_absent staging/*/manifest-*.jsonl",
    "put_if_absent runs/*-*/inputs.json",
    "put runs/*-*/index/_done.json",
    "put state/*",
    "put runs/*-*/admit/_done.json",
    "delete runs/*-*/resolve/work/*.parquet",
    "adopt runs/*-*/materialise/files.parquet",
    "adopt runs/*-*/deduplicate/parts/*/*/found/*.parquet",
    "put runs/*-*/deduplicate/_done.json",
    "commit_table",
    "adopt runs/*-*/publish/runs.parquet",
    "put_if_absent chain/*.json",
    "put locks/*.released",
)
"""Where a run hands something over: between two steps, two tables, two runs."""
WRITTEN = (NAMED[1], NAMED[4], NAMED[7], NAMED[12])
LONGEST_RUN_MS = 2500
RANDOM_MOMENTS = 100 if EVERY else 3
RUNS = (0, pytest.param(1, marks=pytest.mark.xdist_group("faults"))) if EVERY else (1,)
"""Each is a test of its own, in a group of its own, so that two processes can share them."""


@dataclass
class RunServer:
    """Runs runs with faults in a process of its own."""

    process: "subprocess.Popen[str]"

    @cached_property
    def changes(self) -> list[list[str]]:
        """The changes of the two undisturbed runs, in order."""
        changes: list[list[str]] = self._read()["changes"]
        return changes

    def ask(self, request: Request) -> Answer:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(asdict(request)) + "\n")
        self.process.stdin.flush()
        return Answer(**self._read())

    def _read(self) -> Any:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunServer]:
    place = tmp_path_factory.mktemp("runs")
    command = [sys.executable, "-m", "tests.faults.run_server", str(place)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        server = RunServer(process)
        assert server.changes
        yield server


def _moments(changes: list[str], named: tuple[str, ...]) -> list[int]:
    """Numbers of the changes to try: the last of each kind, since more is before it."""
    if EVERY:
        return list(range(len(changes)))
    last = {kind_of(name): number for number, name in enumerate(changes)}
    return [last[kind] for kind in named]


def _fails(runs: RunServer, run: int, fault: str, moments: list[int]) -> Iterator[tuple[str, Answer]]:
    for number in moments:
        name = f"run {run}, before change {number}: {runs.changes[run][number]}"
        yield name, runs.ask(Request(run=run, fault=fault, at=number))


@pytest.mark.parametrize("run", RUNS)
def test_a_run_killed_before_any_change_and_repeated_leaves_what_an_undisturbed_one_leaves(
    runs: RunServer, run: int
) -> None:
    moments = _moments(runs.changes[run], NAMED)
    tried = _fails(runs, run, "left" if EVERY else "die", moments)
    found = [(name, answer.ended, answer.again, answer.different) for name, answer in tried]
    assert [one for one in found if one[1:] != (-signal.SIGKILL, "", [])] == []


def test_a_run_killed_at_any_time_and_repeated_leaves_what_an_undisturbed_one_leaves(
    runs: RunServer,
) -> None:
    chance = random.Random()
    for _ in range(RANDOM_MOMENTS):
        request = Request(run=1, fault="kill", at=chance.randint(1, LONGEST_RUN_MS))
        answer = runs.ask(request)
        assert answer.ended in {-signal.SIGALRM, 0}
        assert (request, answer.again, answer.different) == (request, "", [])


@pytest.mark.parametrize("run", RUNS)
def test_a_run_that_finds_no_space_says_so_and_continues_when_there_is_some(
    runs: RunServer, run: int
) -> None:
    for name, answer in _fails(runs, run, "full", _moments(runs.changes[run], WRITTEN)):
        assert (name, answer.ended) == (name, FAILED), answer.said
        assert answer.said.startswith(("StoreFull: ", "ReportFailed: ")), (name, answer.said)
        assert answer.said.endswith("no space left on the device: free some and run again\n")
        assert (name, answer.again, answer.different) == (name, "", [])


def test_a_disk_that_is_too_small_is_named_until_it_is_large_enough(tmp_path: Path) -> None:
    command = ["unshare", "--map-root-user", "--mount", sys.executable, "-m", "tests.faults.small_disk"]
    if not shutil.which("unshare") or subprocess.run([*command[:3], "true"], check=False).returncode:
        pytest.skip("no file system can be mounted here")
    done = subprocess.run([*command, str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert len(found["reported"]) > 1
    assert all("no space left on the device" in said or "disk is full" in said for said in found["reported"])
    assert (found["ended"], found["last"], found["different"]) == (0, "", [])
