"""Every change that a run makes, counted; one of them can be the moment at which something happens.

Changes are the writes and deletions of the lake, the files that Iceberg writes, and those of its catalog.
Heartbeats of the lock come by the clock, so they do not count.
"""

import errno
import os
import re
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io.pyarrow import PyArrowFile

from spark_jobs.lake.file_store import FileStore

LAKE = ("put", "put_if_absent", "adopt", "delete")
CATALOG = ("create_namespace", "create_table", "commit_table")
VARYING = re.compile(r"(?:[0-9a-f]{2}/)?[0-9a-f]{16,}|\d{5,}|\d{4}-\d\d-\d\d|(?<=/)\w+-\d+(?=[/.])")


@dataclass
class Writes:
    """What has been changed so far, by name; `at` is called before each change with its number from 0 on."""

    at: Callable[[int], None] = lambda number: None
    names: list[str] = field(default_factory=list)

    def meet(self, name: str) -> None:
        if not name.endswith(".beat"):
            self.names.append(name)
            self.at(len(self.names) - 1)


def watch(writes: Writes) -> None:
    """Lets `writes` see all changes of this process from now on."""
    for name in LAKE:
        place = 1 if name == "adopt" else 0
        setattr(FileStore, name, _met(writes, name, getattr(FileStore, name), place))
    for name in CATALOG:
        setattr(SqlCatalog, name, _met(writes, name, getattr(SqlCatalog, name), 0))
    PyArrowFile.create = _file_met(writes, PyArrowFile.create)  # type: ignore[method-assign]


def kind_of(name: str) -> str:
    """The name without what differs from one to the next: where in the flow the change happens."""
    return VARYING.sub("*", name)


def die(number: int) -> Callable[[int], None]:
    """The process does not survive to make the change of that number."""
    return lambda now: os.kill(os.getpid(), signal.SIGKILL) if now == number else None


def fill_up(number: int) -> Callable[[int], None]:
    """From the change of that number on, nothing can be written to the lake any more."""

    def at(now: int) -> None:
        if now == number:
            FileStore._parent_made = _no_space  # type: ignore[method-assign,assignment]

    return at


def _no_space(*_: object) -> NoReturn:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _met(writes: Writes, name: str, original: Callable[..., Any], place: int) -> Callable[..., Any]:
    def change(self: object, *arguments: Any, **named: Any) -> Any:
        what = arguments[place] if arguments and isinstance(arguments[place], str | Path) else ""
        writes.meet(f"{name} {what}".strip())
        return original(self, *arguments, **named)

    return change


def _file_met(writes: Writes, original: Callable[..., Any]) -> Callable[..., Any]:
    def create(self: PyArrowFile, *arguments: Any, **named: Any) -> Any:
        writes.meet(f"create {Path(self.location).suffix}")
        return original(self, *arguments, **named)

    return create
