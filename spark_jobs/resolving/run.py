"""What the driver's side of this room needs of a run; a step's context has it all."""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from spark_jobs.config.settings import Settings
from spark_jobs.storage.chain import Chain
from spark_jobs.storage.manifest import Manifest
from spark_jobs.storage.object_store import ObjectStore
from spark_jobs.storage.run_folder import RunFolder

Task = TypeVar("Task")
Summary = TypeVar("Summary")


class Run(Protocol):
    """One run as its steps see it."""

    @property
    def settings(self) -> Settings:
        """The configuration."""

    @property
    def folder(self) -> RunFolder:
        """Where outputs go."""

    @property
    def lake(self) -> ObjectStore:
        """The lake."""

    @property
    def chain(self) -> Chain:
        """Earlier nights."""

    @property
    def manifest(self) -> Manifest:
        """The staged objects."""

    @property
    def now_ms(self) -> int:
        """The run's logical time."""

    def run_tasks(
        self, function: Callable[[Task], Summary], tasks: Sequence[Task], *, in_driver: bool = False
    ) -> list[Summary]:
        """`function` of every task, in order, by Spark's workers or `in_driver`."""
