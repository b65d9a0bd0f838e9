"""One Spark session per process, started when the first step needs it; Spark moves tasks, never records.

A task is a small frozen value that a Python worker turns into a small summary; what the worker reads and
writes are files. The JVM's own output goes to an unnamed file and is quoted only when Spark does not start.
"""

import gc
import logging
import os
import pickle
import re
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from itertools import count
from operator import itemgetter
from threading import Thread, current_thread, main_thread
from typing import IO, Any, Generic, TypeVar, cast

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark import RDD, SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import DataFrame, SparkSession
from pyspark.util import _load_from_socket

from spark_jobs.config.settings import SparkSettings
from spark_jobs.config.yaml_file import looks_secret
from spark_jobs.java_home import java_home
from spark_jobs.protocol.errors import OnceoverError
from spark_jobs.shuffle import (
    GroupRows,
    Rows,
    Shuffled,
    TaskRows,
    ddl,
    shuffle_in_driver,
    split_notes,
    travel_schema,
)
from spark_jobs.worker import SUMMARIES, group_of, rows_of, summary_row, task_table

Task = TypeVar("Task")
Summary = TypeVar("Summary")

KEEP_MEMORY = {
    "MALLOC_MMAP_THRESHOLD_": str(32 * 2**20),
    "MALLOC_TRIM_THRESHOLD_": str(256 * 2**20),
}
"""Workers keep what they free: pieces of a few megabytes come and go, and new pages have to be cleared."""
QUIET: dict[str, str] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # The JVM only hands tasks out: code that is compiled quickly serves it better than code that runs fast.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    **{f"spark.executorEnv.{name}": value for name, value in KEEP_MEMORY.items()},
    # One partition per row of a local table: a task is a row.
    "spark.sql.leafNodeDefaultParallelism": str(2**31 - 1),
    # Over TCP each task waits 40 ms for an acknowledgement that the other side puts off.
    "spark.python.unix.domain.socket.enabled": "true",
}
LOG_TAIL_BYTES = 4000
LAST_WORDS = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t].*\n)*(\S.*)")
WORKER_DIED = "Python worker exited unexpectedly"
WORKER_ADVICE = (
    "a Python worker was killed or crashed, most often because the machine ran out of memory: "
    "run again; if it happens again, let fewer tasks run at once (such as spark.master local[2]) or lower "
    "limits.range_bytes"
)
FAILURE = re.compile(r"most recent failure: (.*)")
CALLING = re.compile(r"An error occurred while calling \S+\n: ")
THROWN_BY_JOB = "ExecutionException: Exception thrown by job"
CAUSE = "Caused by: "
SECONDS_BETWEEN_LOOKS = 0.2
MOST_JOBS_AT_ONCE = 16
_JOBS = count()

Watch = Callable[[int], None]
"""Is told how many tasks of a job are done."""


class SparkFailed(OnceoverError):
    """Spark itself, or a worker for a reason outside the data, gave up; trying again can help."""

    transient = True


def _look_away(_: int) -> None:
    """Nobody watches."""


@dataclass(frozen=True)
class Spark:
    """The way to Spark: nothing is started before `session` or `run_tasks` is used."""

    master: str = "local[*]"
    options: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def session(self) -> SparkSession:
        """The session of this process; the first one to ask decides its settings."""
        prepare_environment(os.environ)
        return SparkSession.getActiveSession() or SparkSession(self._start())

    @property
    def parallelism(self) -> int:
        """How many tasks run at once."""
        return self.session.sparkContext.defaultParallelism

    def run_tasks(
        self,
        function: Callable[[Task], Summary],
        tasks: Sequence[Task],
        *,
        watch: Watch = _look_away,
        here: bool = False,
    ) -> list[Summary]:
        """`function` of every task, in the tasks' order; no session is started for no tasks.

        `watch` is told now and then how many are done. A terminal error of a worker is raised here as it was;
        anything else becomes `SparkFailed`. With `here` this process does it: for tasks that are done sooner
        than handed out, whoever says so knows that they are small.
        """
        if not tasks or here:
            return [function(task) for task in tasks]
        job = self.session.sparkContext.parallelize(tasks, len(tasks)).map(_Attempt(function))
        with _reported():
            return [_value(outcome) for outcome in _watched(job, watch, self._callers)]

    @cached_property
    def _callers(self) -> ThreadPoolExecutor:
        """Threads that wait for jobs, kept: each has a connection to the JVM, and a thread there."""
        return ThreadPoolExecutor(MOST_JOBS_AT_ONCE, thread_name_prefix="job")

    def stop(self) -> None:
        """End the JVM, if one was started."""
        if "session" in self.__dict__:
            self._callers.shutdown()
            self.session.stop()

    def shuffle(
        self,
        sides: Sequence[Rows],
        *,
        key: str,
        function: Callable[..., Summary],
        watch: Watch = _look_away,
        in_driver: bool = False,
    ) -> Shuffled[Summary]:
        """`function(key, table, ...)` of every group of rows with the same `key`, a table per side.

        See `shuffle` for what functions may be. Errors are those of `run_tasks`; `watch` counts tasks of all
        stages. With `in_driver` this process does it all.
        """
        if in_driver:
            return shuffle_in_driver(sides, key=key, function=function)
        summaries = partial(summary_row, function)
        rows = GroupRows(sides=tuple(sides), key=key, function=summaries, schema=SUMMARIES)
        with _reported():
            found = _watched_frame(self._frame(rows), watch, self._callers)
        return _shuffled(*split_notes(found, SUMMARIES))

    def _frame(self, rows: Rows) -> DataFrame:
        schema = ddl(travel_schema(rows.schema))
        if isinstance(rows, TaskRows):
            return self._task_frame(rows.tasks).mapInArrow(rows_of(rows), schema)
        first, *other = (self._frame(side).groupBy(rows.key) for side in rows.sides)
        grouped: Any = first.cogroup(other[0]) if other else first
        return cast(DataFrame, grouped.applyInArrow(group_of(rows), schema))

    def _task_frame(self, tasks: Sequence[Any]) -> DataFrame:
        """One row and, one partition per task."""
        return self.session.createDataFrame(task_table(tasks))

    def _start(self) -> SparkContext:
        settings = {**QUIET, "spark.app.name": "onceover", **self.options, "spark.master": self.master}
        launch: Callable[..., Any] = launch_gateway  # pyspark leaves it unannotated
        with tempfile.TemporaryFile() as log:
            try:
                with _interrupted_later():
                    gateway = launch(_conf(shown(settings)), {"stderr": log})
                    context = SparkContext(conf=_conf(settings), gateway=gateway)
            except (PySparkException, Py4JError) as error:
                raise SparkFailed(f"Spark did not start: {error}\n{_tail(log)}") from None
        if _is_main_thread():
            signal.signal(signal.SIGINT, partial(_interrupt, context))
        return context


@contextmanager
def _interrupted_later() -> Iterator[None]:
    """Puts an interrupt off to the end: a JVM that nobody connects to while it starts would stay for ever."""
    if not _is_main_thread():
        yield
        return
    signals: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: signals.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if signals:
        raise KeyboardInterrupt


def _interrupt(context: SparkContext, *_: object) -> None:
    """Ends all jobs, those of other threads too, and then what this thread does, without a word in logs.

    pyspark's own handler asks the JVM in this thread, which may be in the middle of another question: the
    answers are mixed up then. Another thread has a connection of its own.
    """
    logging.disable()  # py4j logs with a traceback that it was interrupted
    Thread(target=_cancel_all_jobs, args=[context], daemon=True).start()
    raise KeyboardInterrupt


def _cancel_all_jobs(context: SparkContext) -> None:
    """Best effort: the same interrupt may end the JVM first, and then there are no jobs left."""
    with suppress(Exception):
        context.cancelAllJobs()


def _is_main_thread() -> bool:
    return current_thread() is main_thread()


def shown(settings: Mapping[str, str]) -> dict[str, str]:
    """What may stand on the JVM's command line, which everybody on the machine can read.

    The rest reaches it through the connection that it opens to this process.
    """
    return {name: value for name, value in settings.items() if not looks_secret(name, value)}


def _conf(settings: Mapping[str, str]) -> SparkConf:
    return SparkConf(loadDefaults=False).setAll(list(settings.items()))


def spark_for(settings: SparkSettings) -> Spark:
    """The way to the Spark that a configuration names."""
    options = {
        "spark.app.name": settings.app_name,
        "spark.driver.memory": settings.driver_memory,
        **settings.conf,
    }
    return Spark(settings.master, options)


@contextmanager
def _reported() -> Iterator[None]:
    """What Spark raises as `SparkFailed`."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        failure = SparkFailed(first_cause(str(error)))
        failure.add_note(str(error))
        raise failure from None


def _shuffled(summaries: pa.Table, notes: Sequence[bytes]) -> Shuffled[Any]:
    """Summaries in order of their keys; of several errors the one whose text is the first."""
    found = [pickle.loads(note) for note in notes]  # noqa: S301 — our workers'
    for error in sorted((each for each in found if isinstance(each, OnceoverError)), key=str):
        raise error
    pickled: list[Any] = summaries["summary"].to_pylist()
    by_key = sorted(map(pickle.loads, pickled), key=itemgetter(0))
    return Shuffled([summary for _, summary in by_key], [note.value for note in found])


def _watched_frame(frame: DataFrame, watch: Watch, callers: ThreadPoolExecutor) -> pa.Table:
    """The frame's rows; its job is cancelled if the caller is interrupted."""
    context, group = frame.sparkSession.sparkContext, f"onceover-{next(_JOBS)}"

    def collect() -> pa.Table:
        context.setJobGroup(group, "onceover")
        return frame.toArrow()

    result = callers.submit(collect)
    try:
        while not wait([result], timeout=SECONDS_BETWEEN_LOOKS).done:
            watch(_tasks_done(context, group))
    except BaseException:
        callers.submit(context.cancelJobGroup, group)
        wait([result])
        raise
    return result.result()


def _watched(rdd: "RDD[Summary]", watch: Watch, callers: ThreadPoolExecutor) -> list[Summary]:
    """The job's result; called off if the one who waits is interrupted."""
    context, group = rdd.context, f"onceover-{next(_JOBS)}"

    def collect() -> list[Summary]:
        context.setJobGroup(group, "onceover")
        return _collect(rdd)

    result = callers.submit(collect)
    try:
        while not wait([result], timeout=SECONDS_BETWEEN_LOOKS).done:
            watch(_tasks_done(context, group))
    except BaseException:  # an interrupt, maybe in the middle of a question to the JVM: ask from elsewhere
        callers.submit(context.cancelJobGroup, group)
        wait([result])
        raise
    return result.result()


def _collect(rdd: "RDD[Summary]") -> list[Summary]:
    """`rdd.collect()` by the way of `collectAsync`, half as dear for a small job.

    The other way Spark reads the byte code of two of its largest classes again for every job, to see whether
    its own functions can be sent.
    """
    job: Any = rdd
    jvm: Any = rdd.context._jvm  # noqa: SLF001 — as pyspark's own collect does
    found = job._jrdd.collectAsync().get()  # noqa: SLF001 — likewise
    served = jvm.PythonRDD.serveIterator(
        jvm.scala.jdk.javaapi.CollectionConverters.asScala(found.iterator()), "serve onceover"
    )
    with _load_from_socket(served, job._jrdd_deserializer) as stream:  # noqa: SLF001 — likewise
        return list(stream)


def _tasks_done(context: SparkContext, group: str) -> int:
    tracker = context.statusTracker()
    jobs = (tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group))
    stages = (tracker.getStageInfo(stage) for job in jobs if job for stage in job.stageIds)
    return sum(stage.numCompletedTasks for stage in stages if stage)


class _Attempt(Generic[Task, Summary]):
    """Runs in the worker: a terminal error is a result, so that Spark neither repeats nor rewords it."""

    def __init__(self, function: Callable[[Task], Summary]) -> None:
        self._function = function

    def __call__(self, task: Task) -> Summary | OnceoverError:
        try:
            return self._function(task)
        except OnceoverError as error:
            if error.transient:
                raise
            return error
        finally:
            _keep_imports()


@cache
def _keep_imports() -> None:
    """Once per worker: pyspark collects garbage after each task, and need not look at libraries again."""
    gc.collect()
    gc.freeze()


def _value(outcome: Summary | OnceoverError) -> Summary:
    if isinstance(outcome, OnceoverError):
        raise outcome
    return outcome


def prepare_environment(environment: MutableMapping[str, str]) -> None:
    """What Spark reads from the environment before it starts, where nobody has set it."""
    environment.setdefault("JAVA_HOME", str(java_home()))
    environment.setdefault("PYSPARK_PYTHON", sys.executable)
    environment.setdefault("SPARK_LOCAL_IP", "127.0.0.1")


def first_cause(trace: str) -> str:
    """What a person needs of Spark's account: the worker's own last words, or Spark's first."""
    if last_words := LAST_WORDS.findall(trace):
        return str(last_words[-1])
    if WORKER_DIED in trace:
        return WORKER_ADVICE
    failure = FAILURE.search(trace)
    if THROWN_BY_JOB in trace:
        trace = trace.partition(CAUSE)[2]
    return str(failure[1]) if failure else CALLING.sub("", trace).partition("\n")[0]


def _tail(log: IO[bytes]) -> str:
    log.seek(max(0, log.seek(0, os.SEEK_END) - LOG_TAIL_BYTES))
    return log.read().decode(errors="replace")
