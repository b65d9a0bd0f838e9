"""What a step is given and what it gives back: a step is a module with `run(context) -> StepResult`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from spark_jobs.config.settings import Settings
from spark_jobs.flow import Step
from spark_jobs.shuffle import Rows, Shuffled
from spark_jobs.spark_session import Spark
from spark_jobs.storage.chain import Chain
from spark_jobs.storage.manifest import Manifest
from spark_jobs.storage.object_store import ObjectStore
from spark_jobs.storage.run_folder import OutputFile, RunFolder
from spark_jobs.storage.staged import read_run_manifest
from spark_jobs.worker import Summary, Task


@dataclass(frozen=True, slots=True, kw_only=True)
class StepResult:
    """What a step wrote: its files, its counts, its part of the state for the next run.

    `messages` are remarks for the run's report.
    """

    outputs: tuple[OutputFile, ...]
    counts: Mapping[str, int] = field(default_factory=dict)
    state: str = ""
    messages: tuple[str, ...] = ()


@dataclass(slots=True)
class CurrentStep:
    """The step at work, for descriptions of its Spark jobs."""

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
