"""The driver: one request at a time, with one Spark session for all of them.

It ends when idle for a while, on request, and at once when the task that it works for has ended, so that a
killed task does not continue. Ending at any moment is safe, since runs are.
"""

import os
import socket
import threading
import traceback
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from datetime import date
from io import StringIO
from pathlib import Path
from typing import Any, BinaryIO, assert_never

from rich.console import Console

from spark_jobs.config.load import load_settings
from spark_jobs.config.settings import Settings, SparkSettings
from spark_jobs.driver.protocol import (
    Answer,
    DaysRequest,
    DriverFiles,
    DriverRequest,
    ExpireRequest,
    Failure,
    FetchRequest,
    LogLine,
    Message,
    PlanRequest,
    ReportRequest,
    Request,
    SourcesRequest,
    StepAnswer,
    StepRequest,
    StopRequest,
    read_message,
    write_message,
)
from spark_jobs.execution.spark import Spark, spark_for
from spark_jobs.flow import LAST_OF_RUN, Step
from spark_jobs.kafka.errors import OnceoverError
from spark_jobs.operations.backfill import next_day, plan_backfill, run_backfill_day
from spark_jobs.pipeline.stage.backfill_request import BackfillRequest, read_request
from spark_jobs.progress import RunProgress
from spark_jobs.run import RunOutcome, execute_run, fetch_source, prepare_step, report_run

IDLE_SECONDS = 60.0
"""Longer than the pause between two tasks of a run, short enough not to keep a gigabyte for nothing."""
SECONDS_TO_ASK = 10.0
MOST_REQUEST_BYTES = 1 << 20
"""Limits of time and size for a request, so that a stalled client does not block the next one."""
EXIT_ABANDONED = 3
WIDTH = 160


class RequestHandler:
    """Handles requests; the Spark session of the first one serves all."""

    def __init__(self) -> None:
        self._spark: Spark | None = None
        self._starting: Future[None] | None = None

    def do(self, request: StepRequest | DriverRequest, progress: RunProgress) -> StepAnswer | Answer:
        settings = load_settings(Path(request.config))
        os.environ.update(request.connections)  # before Spark starts: local workers inherit them
        if isinstance(request, StepRequest):
            return self._step(request, settings, progress)
        return Answer(values=self._values(request, settings, progress))

    def _values(self, request: DriverRequest, settings: Settings, progress: RunProgress) -> Mapping[str, Any]:
        match request:
            case SourcesRequest():
                self._start_early(request, settings)
                return {"sources": [source.name for source in settings.sources]}
            case FetchRequest():
                spark = self._spark_for(request, settings)
                return fetch_source(
                    settings, request.day, request.source, spark=spark, restage=request.restage
                )
            case ReportRequest():
                return report_run(settings, request.run_id or None, progress)
            case ExpireRequest():
                return expire_values(settings)
            case PlanRequest():
                return plan_values(settings, read_request(request.backfill))
            case DaysRequest():
                return self._days(request, settings, progress)
        assert_never(request)

    def stop(self) -> None:
        """Ends Spark, if it was started."""
        self._wait()
        if self._spark is not None:
            self._spark.stop()

    def _step(self, request: StepRequest, settings: Settings, progress: RunProgress) -> StepAnswer:
        if request.step is not Step.STAGE:
            self._wait()
        outcome = execute_run(
            settings,
            request.day,
            until=request.step,
            spark=self._spark_for(request, settings),
            progress=progress,
            more_steps_follow=request.more_steps_follow,
            restage=request.restage and request.step is Step.STAGE,
            is_first_call=request.step is Step.STAGE,
        )
        counts: dict[str, int] = {}
        for done in outcome.done:
            counts |= done.counts if done.step is request.step else {}
        return StepAnswer(
            run_id=outcome.run_id,
            worked=outcome.worked,
            is_final=outcome.is_final,
            counts=counts,
            tables=_tables(settings, outcome.run_id) if request.step is Step.PUBLISH else {},
        )

    def _days(self, request: DaysRequest, settings: Settings, progress: RunProgress) -> Mapping[str, Any]:
        self._wait()
        spark, backfill = self._spark_for(request, settings), read_request(request.backfill)
        runs = [
            {"run_id": outcome.run_id, "tables": dict(_tables(settings, outcome.run_id))}
            for outcome in due_days(settings, backfill, request, spark=spark, progress=progress)
        ]
        return {"runs": runs}

    def _spark_for(self, request: Request, settings: Settings) -> Spark:
        self._spark = self._spark or spark_for(spark_settings(request, settings.spark))
        return self._spark

    def _start_early(self, request: Request, settings: Settings) -> None:
        if self._spark is None:
            spark = self._spark_for(request, settings)
            beside = ThreadPoolExecutor(1, thread_name_prefix="start early")
            self._starting = beside.submit(_start, spark)
            beside.submit(prepare_step, Step.AUDIT)
            beside.shutdown(wait=False)

    def _wait(self) -> None:
        """Waits until Spark has started; a failure is raised by the step that needs it."""
        if self._starting is not None:
            self._starting.exception()
            self._starting = None


def _start(spark: Spark) -> None:
    _ = spark.session


def expire_values(settings: Settings) -> Mapping[str, int]:
    """Removes what is older than the retention, and counts it."""
    from spark_jobs.operations.expire import expire  # noqa: PLC0415 — heavy, for one task

    gone = expire(settings)
    return {
        "runs": len(gone.folders),
        "staged_objects": len(gone.objects),
        "snapshots": sum(len(table.snapshots) for table in gone.tables),
        "bytes": gone.bytes,
    }


def plan_values(settings: Settings, request: BackfillRequest) -> Mapping[str, Any]:
    """The plan in plain values, without the names of objects, which can be millions."""
    plan = plan_backfill(settings, request)
    return {
        "changes": plan.changes,
        "days": [
            {
                "day": each.day.isoformat(),
                "run_id": each.run_id,
                "changes": each.changes,
                "reasons": [reason.sentence for reason in each.reasons],
            }
            for each in plan.days
        ],
    }


def due_days(
    settings: Settings,
    backfill: BackfillRequest,
    request: DaysRequest,
    *,
    spark: Spark,
    progress: RunProgress,
) -> Iterator[RunOutcome]:
    """Runs each date that has to run, in order; whether the next one has to is known only then."""
    after = date.fromisoformat(request.after) if request.after else None
    last = date.fromisoformat(request.until) if request.until else date.max
    while (day := next_day(settings, backfill, after=after)) is not None and day <= last:
        yield run_backfill_day(settings, day, backfill, spark=spark, progress=progress, until=LAST_OF_RUN)
        after = day


def _tables(settings: Settings, run_id: str) -> Mapping[str, Mapping[str, str]]:
    from spark_jobs.lake.iceberg.holdings import published_tables  # noqa: PLC0415 — heavy, for one step

    return {
        name: {"snapshot_id": str(table.snapshot_id), "location": table.location}
        for name, table in published_tables(settings, run_id).items()
    }


def spark_settings(request: Request, configured: SparkSettings) -> SparkSettings:
    """The Spark settings with the request's own; kept apart from `Settings`, which every worker gets.

    Unlike the configuration, the request's `conf` may have secrets.
    """
    return configured.model_copy(
        update={"master": request.master or configured.master, "conf": {**configured.conf, **request.conf}}
    )


class Driver:
    """Serves the tasks of one lake on the socket of `place`."""

    def __init__(self, place: DriverFiles, *, idle_s: float = IDLE_SECONDS) -> None:
        self._place, self._idle_s = place, idle_s
        self._handler = RequestHandler()

    def serve(self) -> None:
        """Serves requests until idle."""
        with socket.socket(socket.AF_UNIX) as listener:
            self._place.socket.unlink(missing_ok=True)
            listener.bind(str(self._place.socket))
            listener.listen()
            while (connection := self._next(listener)) and self._serve(connection):
                pass
            self._place.socket.unlink(missing_ok=True)
        self._handler.stop()
        self._place.log.unlink(missing_ok=True)

    def _next(self, listener: socket.socket) -> socket.socket | None:
        """The next connection; None if idle and, under the lock, none can follow."""
        listener.settimeout(self._idle_s)
        with suppress(TimeoutError):
            return listener.accept()[0]
        with self._place.locked():
            listener.setblocking(False)
            with suppress(BlockingIOError):
                return listener.accept()[0]
            self._place.socket.unlink()
            return None

    def _serve(self, connection: socket.socket) -> bool:
        """Answers one request; whether to wait for more."""
        connection.settimeout(SECONDS_TO_ASK)
        with connection, connection.makefile("rb") as lines:
            request = _read_request(lines)
            connection.settimeout(None)
            if isinstance(request, Request):
                with _EndWithClient(connection):
                    answer = self._answer(request, connection)
                _send(connection, answer)
            return not isinstance(request, StopRequest)

    def _answer(self, request: StepRequest | DriverRequest, connection: socket.socket) -> Message:
        try:
            return self._handler.do(request, RunProgress(_console(connection)))
        except OnceoverError as error:
            return Failure(message=str(error), transient=error.transient)
        except Exception as error:  # noqa: BLE001 — a bug fails the step, not the driver
            return Failure(message=repr(error), transient=False, trace=traceback.format_exc())


def _read_request(lines: BinaryIO) -> Message | None:
    """The request; None if none arrives in time or if it is malformed."""
    try:
        line = lines.readline(MOST_REQUEST_BYTES)
        return read_message(line) if line else None
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None


class _EndWithClient:
    """Ends the whole process if the client disconnects while its request is handled."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._is_done = threading.Event()

    def __enter__(self) -> None:
        threading.Thread(target=self._watch, daemon=True).start()

    def __exit__(self, *_: object) -> None:
        self._is_done.set()

    def _watch(self) -> None:
        with suppress(OSError):
            self._connection.recv(1)
        if not self._is_done.is_set():
            os._exit(EXIT_ABANDONED)


class _Lines(StringIO):
    """A text file whose lines become messages."""

    def __init__(self, connection: socket.socket) -> None:
        super().__init__()
        self._connection = connection

    def write(self, text: str) -> int:
        for line in filter(None, map(str.rstrip, text.split("\n"))):
            _send(self._connection, LogLine(text=line))
        return len(text)


def _console(connection: socket.socket) -> Console:
    return Console(file=_Lines(connection), highlight=False, width=WIDTH, soft_wrap=True)


def _send(connection: socket.socket, message: Message) -> None:
    with suppress(OSError):  # gone: the watch has seen it, too
        connection.sendall(write_message(message))
