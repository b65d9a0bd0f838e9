"""Spark Connect: a session at a server that has the driver; no JVM beside this process."""

import re
import socket
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from threading import get_ident
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.connect.session import SparkSession as ConnectSparkSession
from pyspark.sql.connect.shell.progress import ProgressHandler, StageInfo

from spark_jobs.config.spark_master import connect_address
from spark_jobs.execution.options import SESSION_OPTIONS, SparkFailed, dynamic_slots

SECONDS_TO_CONNECT = 10.0
SQL = "spark.sql."
"""Options that a session can set; the others are the server's."""
PY_FILES, ARCHIVES = "spark.submit.pyFiles", "spark.archives"
"""Options that become artifacts of the session."""
SPLITS = re.compile(r"splits=(?:Some\()?(\d+)")


@dataclass(frozen=True)
class ConnectSession:
    """A session at a server, and what the server reports of its jobs."""

    session: SparkSession
    splits_rows: bool = True
    """Whether each row of a local table is a partition."""
    _tags: dict[int, str] = field(default_factory=dict)
    _done: dict[str, int] = field(default_factory=dict)

    @property
    def parallelism(self) -> int:
        """How many tasks run at once at the server, as it plans a range of its own."""
        with suppress(PySparkException):  # a serverless server does not show options of executors
            if slots := dynamic_slots(self.session):
                return slots
        other = self.session.newSession()  # with the server's own options
        try:
            plan = other.sql("EXPLAIN SELECT * FROM range(1)").collect()[0][0]
        finally:
            other.stop()
        found = SPLITS.search(plan)
        return int(found[1]) if found else 1

    @contextmanager
    def labelled(self, tag: str, description: str) -> Iterator[None]:
        """Operations of this thread have `tag`, and the description as a second tag for Spark's UI."""
        tags = (tag, description.replace(",", " "))
        for each in tags:
            self.session.addTag(each)
        self._tags[get_ident()] = tag
        try:
            yield
        finally:
            self._done.pop(self._tags.pop(get_ident()), None)
            for each in tags:
                self.session.removeTag(each)

    def note_done(self, tasks: int) -> None:
        """Of the operation that this thread waits for."""
        tag = self._tags.get(get_ident())
        if tag is not None:
            self._done[tag] = tasks

    def tasks_done(self, tag: str) -> int:
        """Completed tasks of the operation with `tag`, as the server reported last."""
        return self._done.get(tag, 0)


class _Progress(ProgressHandler):
    """Is called by the thread that waits for an operation."""

    def __init__(self, connected: ConnectSession) -> None:
        self._connected = connected

    def __call__(self, stages: Iterable[StageInfo] | None, *_: object, **__: object) -> None:
        self._connected.note_done(sum(stage.num_completed_tasks for stage in stages or ()))


def connect(master: str, options: Mapping[str, str]) -> ConnectSession:
    """A new session at the server `sc://host:port`."""
    _check_server(master)
    sql = {name: value for name, value in options.items() if name.startswith(SQL)}
    try:
        # pyspark's general builder would turn the whole process to Connect.
        session: Any = ConnectSparkSession.builder.remote(master).create()
        refused = [name for name, value in SESSION_OPTIONS.items() if not _accepts(session, name, value)]
        for name, value in sql.items():
            session.conf.set(name, value)
        session.addArtifacts(*_paths(options, PY_FILES), pyfile=True)
        session.addArtifacts(*_paths(options, ARCHIVES), archive=True)
        connected = ConnectSession(session, splits_rows=not refused)
    except PySparkException as error:
        raise SparkFailed(f"{master}: no Spark Connect session: {error}") from None
    session.registerProgressHandler(_Progress(connected))
    return connected


def _accepts(session: SparkSession, name: str, value: str) -> bool:
    """Sets an option that Onceover needs; False if the server refuses it, as serverless ones do."""
    try:
        session.conf.set(name, value)
    except PySparkException:
        return False
    return True


def _check_server(master: str) -> None:
    """Fails at once where pyspark would try again for minutes."""
    host, port = connect_address(master)
    try:
        socket.create_connection((host, port), timeout=SECONDS_TO_CONNECT).close()
    except OSError as error:
        raise SparkFailed(f"{master}: no Spark Connect server at {host} port {port}: {error}") from None


def _paths(options: Mapping[str, str], name: str) -> list[str]:
    return [path for path in options.get(name, "").split(",") if path]
