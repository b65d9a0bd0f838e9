"""Progress bars on stderr, only on a terminal."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from spark_jobs.storage.keys import printable

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
