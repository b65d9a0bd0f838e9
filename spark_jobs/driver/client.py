"""The client: finds or starts the driver, sends a request, and waits for its result.

Imports nothing heavy, so that a task adds little to Airflow's own start time.
"""

import os
import socket
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from spark_jobs.driver.protocol import (
    Answer,
    DriverFiles,
    DriverRequest,
    Failure,
    LogLine,
    Request,
    StepAnswer,
    StepRequest,
    StopRequest,
    driver_files,
    read_message,
    write_message,
)
from spark_jobs.extras import Extra, require
from spark_jobs.kafka.errors import OnceoverError
from spark_jobs.lake.process_identity import start_apart

SECONDS_TO_START = 120.0
SECONDS_BETWEEN_LOOKS = 0.05
LOG_TAIL_BYTES = 4000
STILL_RUNNING = (0, 0)
NO_CLIENT = (FileNotFoundError, ConnectionRefusedError)

Log = Callable[[str], None]


class StepFailed(OnceoverError):
    """The step failed permanently: the message says what to change."""


class StepInterrupted(OnceoverError):
    """The step failed for a reason that can pass."""

    transient = True


def run_step(request: StepRequest, *, log: Log) -> StepAnswer:
    """Runs one step in the driver; its log lines go to `log`."""
    answer = _ask(request, log)
    assert isinstance(answer, StepAnswer)
    return answer


def ask(request: DriverRequest, *, log: Log) -> Mapping[str, Any]:
    """Sends a request other than a step to the driver; returns its result by name."""
    answer = _ask(request, log)
    assert isinstance(answer, Answer)
    return answer.values


def _ask(request: StepRequest | DriverRequest, log: Log) -> StepAnswer | Answer:
    place = _place(request)
    with (
        suppress(ConnectionResetError, BrokenPipeError),
        _connect(place) as connection,
        connection.makefile("rb") as lines,
    ):
        connection.sendall(write_message(request))
        for line in lines:
            match read_message(line):
                case LogLine(text=text):
                    log(text)
                case StepAnswer() | Answer() as answer:
                    return answer
                case Failure() as failure:
                    raise _error(failure, log)
    raise StepInterrupted(f"the driver ended in the middle of {_what(request)}: {_stderr_tail(place)}")


def stop_driver(request: Request) -> None:
    """Ends the driver that would serve `request`, if there is one."""
    with socket.socket(socket.AF_UNIX) as connection, suppress(*NO_CLIENT):
        connection.connect(str(_place(request).socket))
        connection.sendall(write_message(StopRequest()))


def _place(request: Request) -> DriverFiles:
    values = (f"{k}={v}" for each in (request.conf, request.connections) for k, v in sorted(each.items()))
    return driver_files(request.config, request.master, *values)


def _what(request: StepRequest | DriverRequest) -> str:
    return f"'{request.step}'" if isinstance(request, StepRequest) else type(request).__name__


def _error(failure: Failure, log: Log) -> OnceoverError:
    if failure.trace:
        log(failure.trace)
    return StepInterrupted(failure.message) if failure.transient else StepFailed(failure.message)


def _connect(place: DriverFiles) -> socket.socket:
    """A connection to the driver, which is started if there is none; a lock allows one start at a time."""
    with place.locked():
        connection = _try(place)
        return connection or _start(place)


def _try(place: DriverFiles) -> socket.socket | None:
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(str(place.socket))
    except NO_CLIENT:
        connection.close()
        return None
    return connection


def _start(place: DriverFiles) -> socket.socket:
    """Starts a driver that outlives this task."""
    require(Extra.PIPELINE, "a task of Onceover")
    command = [sys.executable, "-m", "spark_jobs.driver", str(place.socket)]
    pid = start_apart(command, environment=os.environ, log=place.log)
    deadline = time.monotonic() + SECONDS_TO_START
    while time.monotonic() < deadline and os.waitpid(pid, os.WNOHANG) == STILL_RUNNING:
        if connection := _try(place):
            return connection
        time.sleep(SECONDS_BETWEEN_LOOKS)
    raise StepInterrupted(f"the driver did not start: {_stderr_tail(place)}")


def _stderr_tail(place: DriverFiles) -> str:
    with place.log.open("rb") as log:
        log.seek(max(0, log.seek(0, os.SEEK_END) - LOG_TAIL_BYTES))
        return log.read().decode(errors="replace").strip() or "it printed nothing"
