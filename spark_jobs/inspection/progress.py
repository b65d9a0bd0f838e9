"""A progress bar for long reads, on stderr and only on a terminal."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from spark_jobs.inspection.printers import printable
from spark_jobs.inspection.segments import Advance

_WORTH_A_BAR = 64 * 1024 * 1024
"""Bytes below which a bar would only flicker."""


@contextmanager
def progress(what: str, total_bytes: int, *, wanted: bool | None) -> Iterator[Advance]:
    """A bar over `total_bytes`; `wanted` is None where the terminal decides."""
    if not (_is_worth_it(total_bytes) if wanted is None else wanted):
        yield lambda _: None
        return
    from rich.console import Console  # noqa: PLC0415 — small files are shown without
    from rich.progress import (  # noqa: PLC0415 — likewise
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    name = TextColumn("{task.description}", markup=False)
    columns = (name, BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(printable(what), total=total_bytes)
        yield lambda done: bar.advance(task, done)


def _is_worth_it(total_bytes: int) -> bool:
    return total_bytes >= _WORTH_A_BAR and sys.stderr.isatty()
