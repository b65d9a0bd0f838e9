"""Tells the person who waits what a run does: a line per step, and on a terminal what goes on inside it."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from rich.console import Console

from spark_jobs.flow import Step

Finished = Callable[[Mapping[str, int]], None]


class Narrator:
    """Writes to stderr, so that stdout holds results only."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True, highlight=False, soft_wrap=True)
        self._status = self._console.status("")

    @contextmanager
    def step(self, step: Step) -> Iterator[Finished]:
        """Shows that `step` is worked on; yields what to call with the step's counts once it is done."""
        started = time.monotonic()

        def finished(counts: Mapping[str, int]) -> None:
            seconds = f"{time.monotonic() - started:.1f} s"
            told = ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in counts.items())
            self._console.print(f"{step:<11} {seconds:>8}  {told}", markup=False)

        self._status.update(f"{step} …")
        with self._status:
            yield finished

    def tell(self, what: str) -> None:
        """What goes on inside the step, for a moment."""
        self._status.update(what)

    def remark(self, sentences: Sequence[str]) -> None:
        """What a person should know though the run goes on."""
        for sentence in sentences:
            self._console.print(f"  {sentence}", markup=False, style="yellow")
