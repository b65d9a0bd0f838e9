"""The driver: one request at a time, with one Spark session for all of them.

It ends when idle for a while, on request, and at once when the task that it works for has ended, so that a
killed task does not continue. Ending at any moment is safe, since runs are.
"""

import os
import socket
import threading
import traceback
from contextlib import suppress
from io import StringIO
from typing import BinaryIO

from rich.console import Console

from spark_jobs.driver.messages import (
    DriverRequest,
    Failure,
    LogLine,
    Message,
    Request,
    StepRequest,
    StopRequest,
    read_message,
    write_message,
)
from spark_jobs.driver.place import Place
from spark_jobs.driver.request_handler import RequestHandler
from spark_jobs.protocol.errors import OnceoverError
from spark_jobs.reporting.run_progress import RunProgress

IDLE_SECONDS = 60.0
"""Longer than the pause between two tasks of a run, short enough not to keep a gigabyte for nothing."""
SECONDS_TO_ASK = 10.0
MOST_REQUEST_BYTES = 1 << 20
"""Limits of time and size for a request, so that a stalled client does not block the next one."""
EXIT_ABANDONED = 3
WIDTH = 160


class Driver:
    """Serves the tasks of one lake at `place`."""

    def __init__(self, place: Place, *, idle_s: float = IDLE_SECONDS) -> None:
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
                with _Attended(connection):
                    answer = self._answer(request, connection)
                _tell(connection, answer)
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


class _Attended:
    """While a step is worked on: ends the whole process if the one who asked goes away."""

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
            _tell(self._connection, LogLine(text=line))
        return len(text)


def _console(connection: socket.socket) -> Console:
    return Console(file=_Lines(connection), highlight=False, width=WIDTH, soft_wrap=True)


def _tell(connection: socket.socket, message: Message) -> None:
    with suppress(OSError):  # gone: the watch has seen it, too
        connection.sendall(write_message(message))
