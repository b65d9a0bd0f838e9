"""The interface of a step, `run(context) -> StepResult`, and how its work is divided into Spark tasks."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import TypeVar

import numpy as np

from spark_jobs.config.settings import Settings
from spark_jobs.execution.python_worker import Summary, Task
from spark_jobs.execution.shuffle import Rows, Shuffled
from spark_jobs.execution.spark import Spark
from spark_jobs.flow import Step
from spark_jobs.lake.chain import Chain
from spark_jobs.lake.manifest import Manifest, read_run_manifest
from spark_jobs.lake.object_store import ObjectStore
from spark_jobs.lake.run_folder import OutputFile, RunFolder


@dataclass(frozen=True, slots=True, kw_only=True)
class StepResult:
    """What a step wrote: its files, its counts, its part of the state for the next run.

    `messages` are remarks for the run's report. `obsolete` are keys in the lake that are deleted when the
    step is marked as done.
    """

    outputs: tuple[OutputFile, ...]
    counts: Mapping[str, int] = field(default_factory=dict)
    state: str = ""
    messages: tuple[str, ...] = ()
    obsolete: tuple[str, ...] = ()


@dataclass(slots=True)
class CurrentStep:
    """The step that runs now, for descriptions of its Spark jobs."""

    step: Step | None = None


@dataclass(frozen=True, kw_only=True)
class RunContext:
    """One run as its steps see it: inputs are fixed, `folder` receives outputs, `chain` lists earlier runs.

    `on_progress` receives progress messages.
    """

    settings: Settings
    folder: RunFolder
    chain: Chain
    spark: Spark
    on_progress: Callable[[str], None] = lambda _: None
    current: CurrentStep = field(default_factory=CurrentStep)

    @property
    def lake(self) -> ObjectStore:
        return self.folder.lake

    def run_tasks(
        self, function: Callable[[Task], Summary], tasks: Sequence[Task], *, in_driver: bool = False
    ) -> list[Summary]:
        """`function` of every task by Spark's workers, in order, with progress.

        Work too small to schedule runs `in_driver`.
        """
        name = function.__name__.replace("_", " ")
        return self.spark.run_tasks(
            function,
            tasks,
            watch=lambda done: self.on_progress(f"{name}: {done} of {len(tasks)} tasks"),
            in_driver=in_driver,
            description=self._describe(name),
        )

    def shuffle(
        self,
        sides: Sequence[Rows],
        *,
        key: str,
        function: Callable[..., Summary],
        name: str,
        in_driver: bool = False,
    ) -> Shuffled[Summary]:
        """`Spark.shuffle`, with progress under `name`."""
        return self.spark.shuffle(
            sides,
            key=key,
            function=function,
            watch=lambda done: self.on_progress(f"{name}: {done} tasks done"),
            in_driver=in_driver,
            description=self._describe(name),
        )

    def _describe(self, name: str) -> str:
        """A job as Spark's UI shows it: run, step, what is done."""
        return " ".join(filter(None, ["onceover", self.folder.run_id, self.current.step, name]))

    @property
    def now_ms(self) -> int:
        """The run's logical time; no step reads a clock."""
        return self.folder.inputs.logical_time_ms

    @cached_property
    def manifest(self) -> Manifest:
        """The staged objects, as `stage` fixed them."""
        return read_run_manifest(self.lake, self.folder.run_id)


# How work is divided into tasks.

Item = TypeVar("Item")


def pack(items: Iterable[Item], *, cost: Callable[[Item], int], most: int) -> Iterator[tuple[Item, ...]]:
    """Neighbours together as long as they cost at most `most`."""
    together: list[Item] = []
    total = 0
    for item in items:
        if together and total + cost(item) > most:
            yield tuple(together)
            together, total = [], 0
        together.append(item)
        total += cost(item)
    if together:
        yield tuple(together)


def spread(
    items: Sequence[Item], *, cost: Callable[[Item], int], tasks: int, smallest: int, largest: int
) -> Iterator[tuple[Item, ...]]:
    """Neighbours together, in about so many `tasks`."""
    most = fair_share(map(cost, items), tasks=tasks, smallest=smallest, largest=largest)
    return pack(items, cost=cost, most=most)


def fair_share(costs: Iterable[int], *, tasks: int, smallest: int, largest: int) -> int:
    """The most that one of about so many `tasks` may cost.

    A task costs more than its start, and little enough to be repeated.
    """
    share = sum(costs) // max(tasks, 1)
    slack = share // 8  # items of equal cost would otherwise just not fit
    return min(max(share + slack, smallest), largest)


def share_out(costs: Sequence[int], shares: int) -> list[range]:
    """Neighbouring items in at most `shares` ranges of about equal cost, each with at least one item."""
    if not costs:
        return []
    reached = np.cumsum(np.maximum(np.asarray(costs, dtype=np.int64), 1))
    limits = reached[-1] * (np.arange(shares) + 1) / shares
    stops = np.unique(np.searchsorted(reached, limits, side="left") + 1).clip(max=len(costs))
    return [range(start, stop) for start, stop in pairwise([0, *np.unique(stops).tolist()])]
