"""Attempts that write after their round: no task can change what a later round, or the step, has listed.

The second run of the sample is worked through to the audit. Then its steps are repeated with other ranges,
as after a crash, and published. Every task of the first time, and of every round since, is then run again: a
speculative attempt on a host that Spark has lost may write at any time, and has read its input before.
"""

import hashlib
import pickle
import shutil
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from spark_jobs.config.load import load_settings
from spark_jobs.config.settings import Settings
from spark_jobs.execution.python_worker import Summary, Task
from spark_jobs.execution.shuffle import Rows, Shuffled
from spark_jobs.execution.spark import Watch
from spark_jobs.flow import STEPS, Step
from spark_jobs.kafka.errors import OnceoverError
from spark_jobs.kafka.formats.batch_builder import build_batch, seal
from spark_jobs.kafka.formats.record_batch import HEADER_SIZE, read_header
from spark_jobs.kafka.formats.records import Record
from spark_jobs.lake.layout import OBJECTS, STATE
from spark_jobs.lake.run_folder import RunFolder, read_inputs
from spark_jobs.lake.stores import open_lake
from spark_jobs.pipeline.deduplicate import step as deduplicate
from spark_jobs.pipeline.stage import fetch
from spark_jobs.progress import RunProgress
from spark_jobs.run import execute_run
from spark_jobs.sample.files import CONFIG, write_sample
from spark_jobs.sample.story import RUN_DATES
from tests.golden import scenarios
from tests.in_process import InProcess
from tests.operations.replay import runs as replayed_runs

RANGES = (4096, 6000)
REPEATED = STEPS[STEPS.index(Step.INDEX) : STEPS.index(Step.PUBLISH)]


@dataclass(frozen=True)
class Recorded(InProcess):
    """Keeps every task as it travelled, by the name of its function."""

    calls: dict[str, list[Callable[[], object]]] = field(default_factory=lambda: defaultdict(list))

    def run_tasks(
        self,
        function: Callable[[Task], Summary],
        tasks: Sequence[Task],
        *,
        watch: Watch = lambda _: None,
        in_driver: bool = False,
        description: str = "",
    ) -> list[Summary]:
        for task in tasks:
            self._keep(function, (function, task))
        return super().run_tasks(function, tasks, watch=watch, in_driver=in_driver, description=description)

    def shuffle(
        self,
        sides: Sequence[Rows],
        *,
        key: str,
        function: Callable[..., Summary],
        watch: Watch = lambda _: None,
        in_driver: bool = False,
        description: str = "",
    ) -> Shuffled[Summary]:
        again = InProcess()
        plan = pickle.dumps((sides, function))

        def late() -> object:
            kept, last = pickle.loads(plan)
            return again.shuffle(kept, key=key, function=last)

        self.calls[_name(function)].append(late)
        return super().shuffle(sides, key=key, function=function)

    def _keep(self, function: Callable[..., Any], call: tuple[Any, Any]) -> None:
        kept = pickle.dumps(call)

        def late() -> object:
            function, task = pickle.loads(kept)
            return function(task)

        self.calls[_name(function)].append(late)


def _name(function: Callable[..., Any]) -> str:
    return str(getattr(getattr(function, "func", function), "__name__", function))


@dataclass(frozen=True, kw_only=True)
class Worked:
    """The lake of both runs, and every task that was run for them."""

    settings: Settings
    calls: dict[str, list[Callable[[], object]]]
    listed: dict[str, str]


@pytest.fixture(scope="module")
def worked(tmp_path_factory: pytest.TempPathFactory) -> Worked:
    place = tmp_path_factory.mktemp("late")
    write_sample(place)
    for day in RUN_DATES:
        unreadable = place / f"gateway/dt={day}/unreadable-0/0000.batches"
        unreadable.parent.mkdir(parents=True)
        unreadable.write_bytes(_unreadable_batch())
    settings, spark = load_settings(place / CONFIG), Recorded()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fetch, "IN_DRIVER_COST", 0)
        patch.setattr(deduplicate, "remove_scratch", lambda *_: None)  # late attempts have read it before
        patch.setattr(deduplicate, "FEW_FOUND_BYTES", -1)
        _run(settings, RUN_DATES[0], Step.PUBLISH, InProcess())
        first, then = (_with_ranges(settings, each) for each in RANGES)
        run_id = _run(first, RUN_DATES[1], Step.AUDIT, spark)
        shutil.copytree(settings.lake, place / "before")
        folder = RunFolder(open_lake(settings), read_inputs(open_lake(settings), run_id))
        for step in REPEATED:
            folder.unmark(step)
        patch.setattr(deduplicate, "bucket_count", lambda *_: 4)  # more than files: tasks write the index
        assert _run(then, RUN_DATES[1], Step.PUBLISH, spark) == run_id
        _restore(place / "before", Path(settings.lake))
    return Worked(settings=settings, calls=spark.calls, listed=_listed(settings))


def _unreadable_batch() -> bytes:
    """A batch with a right checksum over bytes that are no records: `materialise` finds out."""
    usual = build_batch(records=[Record(value=bytes(64))], base_timestamp=0)
    return seal(read_header(usual), b"\xff" * (len(usual) - HEADER_SIZE))


def _with_ranges(settings: Settings, range_bytes: int) -> Settings:
    limits = settings.limits.model_copy(update={"range_bytes": range_bytes})
    return settings.model_copy(update={"limits": limits})


def _run(settings: Settings, day: Any, until: Step, spark: InProcess) -> str:
    progress, follow = RunProgress(Console(quiet=True)), until is Step.AUDIT
    outcome = execute_run(
        settings, day, until=until, spark=spark, progress=progress, more_steps_follow=follow
    )
    return outcome.run_id


def _restore(before: Path, lake: Path) -> None:
    """Files of the first time that the second one does not have: late attempts have read them."""
    for path in before.rglob("*"):
        place = lake / path.relative_to(before)
        if path.is_file() and not place.exists():
            place.parent.mkdir(parents=True, exist_ok=True)
            path.rename(place)
    shutil.rmtree(before)


WRITERS = (
    "fetch_objects",
    "index_bins",
    "rebuild_partitions",
    "fold_coordinator_logs",
    "admit_partitions",
    "resolve_bucket",
    "close_partitions",
    "prune_fold",
    "account_for_partitions",
    "relay_table",
    "decode_files",
    "judge_bucket",
    "write_hashes",
    "write_firsts",
    "put_part",
    "rewrite_file",
)
READERS = ("find_newest_markers", "survey_partitions", "count_transactions", "count_facts")
"""They return summaries and write nothing."""


def test_tasks_of_every_kind_were_run(worked: Worked) -> None:
    assert sorted(worked.calls) == sorted((*WRITERS, *READERS))


@pytest.mark.parametrize("name", WRITERS)
def test_a_late_attempt_changes_nothing_that_is_listed(worked: Worked, name: str) -> None:
    for late in reversed(worked.calls[name]):  # the first round is the last to write
        with suppress(OnceoverError):
            late()
    found = _listed(worked.settings)
    assert [path for path, digest in worked.listed.items() if found[path] != digest] == []


@pytest.mark.parametrize(
    ("scenario", "name"),
    [("capture oracle_D without markers", "mark_captures"), ("replay", "decode_replayed")],
)
def test_a_late_attempt_of_a_task_that_the_sample_does_not_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scenario: str, name: str
) -> None:
    spark = Recorded()
    for module in (scenarios, replayed_runs):
        monkeypatch.setattr(module, "InProcess", lambda: spark)
    [*_, (_, settings)] = scenarios.SCENARIOS[scenario](tmp_path)
    listed = _listed(settings)
    assert spark.calls[name]
    for late in spark.calls[name]:
        late()
    assert _listed(settings) == listed


def _listed(settings: Settings) -> dict[str, str]:
    """Digests of the outputs of all runs, and of files that are named by their content."""
    folder, lake = Path(settings.lake), open_lake(settings)
    paths = [path for kind in (OBJECTS, STATE) for path in (folder / kind).rglob("*") if path.is_file()]
    for run in (folder / "runs").iterdir():
        for done in RunFolder(lake, read_inputs(lake, run.name)).steps_done():
            paths += [run / done.step / output.path for output in done.outputs]
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}
