"""One Spark session per process, started when the first step needs it; Spark moves tasks, never records.

A task is a small frozen value that a Python worker turns into a small summary; what the worker reads and
writes are files. Everything goes through the DataFrame API, so classic Spark and Spark Connect run the same.
"""

import logging
import re
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import count
from operator import itemgetter
from threading import Thread
from typing import Any, NoReturn, cast

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from spark_jobs.config.settings import SparkSettings
from spark_jobs.config.spark_master import is_connect, is_local
from spark_jobs.execution.classic import JvmSession, start_jvm
from spark_jobs.execution.connect import ConnectSession, connect
from spark_jobs.execution.options import SparkFailed, interrupt_as, is_main_thread
from spark_jobs.execution.python_worker import (
    OUTCOMES,
    SUMMARIES,
    Summary,
    Task,
    from_bytes,
    group_of,
    outcomes_of,
    rows_of,
    summary_row,
    task_table,
)
from spark_jobs.execution.shuffle import (
    GroupRows,
    Rows,
    Shuffled,
    TaskRows,
    ddl,
    shuffle_in_driver,
    split_notes,
    travel_schema,
)
from spark_jobs.kafka.errors import OnceoverError

STDERR_TAIL = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t].*\n)*(\S.*)")
WORKER_DIED = "Python worker exited unexpectedly"
WORKER_ADVICE = (
    "a Python worker was killed or crashed, most often because the machine ran out of memory: "
    "run again; if it happens again, let fewer tasks run at once (such as spark.master local[2]) or lower "
    "limits.range_bytes"
)
FAILURE = re.compile(r"most recent failure: (.*)")
CALLING = re.compile(r"An error occurred while calling \S+\n: ")
SECONDS_BETWEEN_POLLS = 0.2
MOST_JOBS_AT_ONCE = 16
_JOBS = count()

Watch = Callable[[int], None]
"""Is called with the number of completed tasks of a job."""


def no_progress(_: int) -> None:
    """For callers that do not show progress."""


@dataclass(frozen=True)
class Spark:
    """Access to Spark: no session is started before `session` or `run_tasks` is used."""

    master: str = "local[*]"
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def session(self) -> SparkSession:
        """The session of this process."""
        return self._engine.session

    @property
    def parallelism(self) -> int:
        """How many tasks run at once; determined for each call, since executors are added and removed."""
        return self._engine.parallelism

    @property
    def shares_environment(self) -> bool:
        """Whether workers have the environment variables of this process, as its children."""
        return is_local(self.master)

    def run_tasks(
        self,
        function: Callable[[Task], Summary],
        tasks: Sequence[Task],
        *,
        watch: Watch = no_progress,
        in_driver: bool = False,
        description: str = "",
    ) -> list[Summary]:
        """`function` of every task, in the tasks' order; no session is started for no tasks.

        `watch` is called now and then with the number of completed tasks. A terminal error of a worker is
        raised as it was; anything else becomes `SparkFailed`. Work too small to schedule runs `in_driver`.
        Spark's UI shows `description`.
        """
        if not tasks or in_driver:
            return [function(task) for task in tasks]
        frame = self._task_frame(tasks).mapInArrow(outcomes_of(function), ddl(OUTCOMES))
        found = self._collect(
            frame, lambda done: watch(min(done, len(tasks))), description or _name(function)
        )
        return [_value(from_bytes(each)) for each in _in_order(found)]

    def shuffle(
        self,
        sides: Sequence[Rows],
        *,
        key: str,
        function: Callable[..., Summary],
        watch: Watch = no_progress,
        in_driver: bool = False,
        description: str = "",
    ) -> Shuffled[Summary]:
        """`function(key, table, ...)` of every group of rows with the same `key`, a table per side.

        See `shuffle` for what functions may be. Errors are those of `run_tasks`; `watch` counts tasks of all
        stages.
        """
        if in_driver:
            return shuffle_in_driver(sides, key=key, function=function)
        summaries = partial(summary_row, function)
        rows = GroupRows(sides=tuple(sides), key=key, function=summaries, schema=SUMMARIES)
        found = self._collect(self._frame(rows), watch, description or f"shuffle by {key}")
        return _shuffled(*split_notes(found, SUMMARIES))

    def stop(self) -> None:
        """End the session, if one was started, and its JVM."""
        if "_engine" in self.__dict__:
            self._callers.shutdown()
            self.session.stop()

    @cached_property
    def _engine(self) -> JvmSession | ConnectSession:
        start = connect if is_connect(self.master) else start_jvm
        engine = start(self.master, self.options)
        if is_main_thread():
            signal.signal(signal.SIGINT, partial(_interrupt, engine.session, signal.getsignal(signal.SIGINT)))
        return engine

    @cached_property
    def _callers(self) -> ThreadPoolExecutor:
        """Threads that wait for jobs; reused, since each has a connection to the JVM and a thread there."""
        return ThreadPoolExecutor(MOST_JOBS_AT_ONCE, thread_name_prefix="job")

    def _task_frame(self, tasks: Sequence[Any]) -> DataFrame:
        """One row and one partition per task, by the session's options or else by a shuffle."""
        frame = self.session.createDataFrame(task_table(tasks))
        return frame if self._engine.splits_rows else frame.repartitionByRange(len(tasks), "number")

    def _frame(self, rows: Rows) -> DataFrame:
        schema = ddl(travel_schema(rows.schema))
        if isinstance(rows, TaskRows):
            return self._task_frame(rows.tasks).mapInArrow(rows_of(rows), schema)
        first, *other = (self._frame(side).groupBy(rows.key) for side in rows.sides)
        grouped: Any = first.cogroup(other[0]) if other else first
        return cast(DataFrame, grouped.applyInArrow(group_of(rows), schema))

    def _collect(self, frame: DataFrame, watch: Watch, description: str) -> pa.Table:
        """The frame's rows; its jobs are cancelled if the caller is interrupted."""
        engine, tag = self._engine, f"onceover-{next(_JOBS)}"

        def collect() -> pa.Table:
            with engine.labelled(tag, description):
                return frame.toArrow()

        result = self._callers.submit(collect)
        try:
            with _reported():
                while not wait([result], timeout=SECONDS_BETWEEN_POLLS).done:
                    watch(engine.tasks_done(tag))
                return result.result()
        except BaseException:
            # It may be an interrupt in the middle of a call to the JVM: cancel from another thread.
            cancel = partial(engine.session.interruptTag, tag)
            while not wait([result], timeout=SECONDS_BETWEEN_POLLS).done:
                Thread(target=_attempt, args=[cancel], daemon=True).start()
            raise


def spark_for(settings: SparkSettings) -> Spark:
    """Access to the Spark that a configuration names."""
    options = {
        "spark.app.name": settings.app_name,
        "spark.driver.memory": settings.driver_memory,
        **settings.conf,
    }
    return Spark(settings.master, options)


def _interrupt(session: SparkSession, before: object, number: int, _: object) -> NoReturn:
    """Cancels all jobs, also those of other threads, then interrupts this thread, without log messages.

    pyspark's own handler calls the JVM in this thread, which may be in the middle of another call: the
    responses would be mixed up. Another thread has its own connection.
    """
    logging.disable()  # py4j logs with a traceback that it was interrupted
    Thread(target=_attempt, args=[session.interruptAll], daemon=True).start()
    interrupt_as(before, number)


def _attempt(interrupt: Callable[[], object]) -> None:
    """Best effort: the same interrupt may end the JVM first, and then there are no jobs left."""
    with suppress(Exception):
        interrupt()


@contextmanager
def _reported() -> Iterator[None]:
    """Raises `SparkFailed` for errors of Spark."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        failure = SparkFailed(first_cause(str(error)))
        failure.add_note(str(error))
        raise failure from None


def _name(function: Callable[..., Any]) -> str:
    return str(getattr(function, "__name__", type(function).__name__))


def _in_order(outcomes: pa.Table) -> list[bytes]:
    """Pickled outcomes in order of their tasks."""
    found: list[Any] = outcomes.sort_by("number")["outcome"].to_pylist()
    return found


def _shuffled(summaries: pa.Table, notes: Sequence[bytes]) -> Shuffled[Any]:
    """Summaries in order of their keys; of several errors the one whose text is the first."""
    found = [from_bytes(note) for note in notes]
    for error in sorted((each for each in found if isinstance(each, OnceoverError)), key=str):
        raise error
    pickled: list[Any] = summaries["summary"].to_pylist()
    by_key = sorted(map(from_bytes, pickled), key=itemgetter(0))
    return Shuffled([summary for _, summary in by_key], [note.value for note in found])


def _value(outcome: Summary | OnceoverError) -> Summary:
    if isinstance(outcome, OnceoverError):
        raise outcome
    return outcome


def first_cause(trace: str) -> str:
    """The cause in Spark's error text: the last line of the worker's traceback, or Spark's first line."""
    if stderr_tail := STDERR_TAIL.findall(trace):
        return str(stderr_tail[-1])
    if WORKER_DIED in trace:
        return WORKER_ADVICE
    failure = FAILURE.search(trace)
    return str(failure[1]) if failure else CALLING.sub("", trace).partition("\n")[0]
