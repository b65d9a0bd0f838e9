"""A lake as it is at one moment of a run, copied at the cost of its names rather than of its bytes.

The run makes one change at a time, but for its lock's heartbeats.
"""

import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

CHANGED_IN_PLACE = {"catalog", "tables", ".scratch"}
"""SQLite's file, what Iceberg writes, what is being written; all else is replaced whole, never changed."""


def copy_of(lake: Path, place: Path) -> None:
    place.mkdir()
    for part in lake.iterdir():
        copy = shutil.copy2 if part.name in CHANGED_IN_PLACE else os.link
        shutil.copytree(part, place / part.name, copy_function=partial(_unless_gone, copy))


def _unless_gone(copy: Callable[[str, str], object], source: str, target: str) -> None:
    with suppress(FileNotFoundError):  # a heartbeat was renamed to its place
        copy(source, target)
