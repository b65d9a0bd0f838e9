"""Prints the progress of a run: a line per step, and on a terminal the current activity and progress bars."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from spark_jobs.flow import Step
from spark_jobs.lake.object_store import legible, printable

LABELS = {
    (Step.ADMIT, "critical"): "plain batches in transactions",
    (Step.MATERIALISE, "claimed"): "records by headers",
    (Step.MATERIALISE, "legacy"): "records of old formats",
    (Step.MATERIALISE, "hidden"): "records before the start",
}
"""Labels for counts whose names are unclear by themselves."""
Finished = Callable[[Mapping[str, int]], None]


class RunProgress:
    """Writes to stderr, so that stdout holds results only."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True, highlight=False, soft_wrap=True)
        self._status = self._console.status(Text())

    @contextmanager
    def step(self, step: Step) -> Iterator[Finished]:
        """Shows that `step` is running; yields a function to call with the step's counts when it is done."""
        started = time.monotonic()
        self._status.update(Text(f"{step} …"))
        with self._status:
            yield lambda counts: self.done(step, counts, time.monotonic() - started)

    def done(self, step: Step, counts: Mapping[str, int], seconds: float) -> None:
        """One line about a step that is done."""
        reported = ", ".join(f"{count:,} {_label(step, name)}" for name, count in counts.items())
        self._console.print(f"{step:<11} {seconds:>6.1f} s  {reported}", markup=False)

    def on_progress(self, what: str) -> None:
        """Shows the current activity of the step."""
        self._status.update(Text(legible(what)))

    def remark(self, sentences: Sequence[str]) -> None:
        """Prints remarks that do not stop the run."""
        for sentence in sentences:
            self._console.print(f"  {legible(sentence)}", markup=False, style="yellow")


def _label(step: Step, name: str) -> str:
    return LABELS.get((step, name), name.replace("_", " "))


Advance = Callable[[int], None]


@contextmanager
def byte_progress(title: str, total: int) -> Iterator[Advance]:
    """A bar that the yielded function advances by a number of bytes; silent without a terminal."""
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as progress:
        task = progress.add_task(printable(title), total=total)

        def advance(count: int) -> None:
            progress.update(task, advance=count)

        yield advance
