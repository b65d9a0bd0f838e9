"""A client in a process of its own: it ends with its input, and prints what became of its transactions."""

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import IO

from tests.broker.clients.journal import read_lines
from tests.broker.clients.workplace import Workplace

END_SECONDS = 60


class ClientFailed(Exception):
    """Its process ended with an error; one that a signal ended is a client that died, as clients may."""


class ClientProcess:
    """Runs one of the kinds of `__main__`: librdkafka can wait for good, and abort the process it is in."""

    def __init__(self, work: Workplace, kind: str, name: str) -> None:
        self.work, self.kind, self.name = work, kind, name

    def run(self) -> None:
        run_client(self.work, [sys.executable, "-m", "tests.broker.clients", self.kind, self.name])


def run_client(work: Workplace, command: Sequence[str], *, seconds: float | None = None) -> None:
    """Runs until it is stopped, or for this long. One that then does not end is killed, as clients may be."""
    with tempfile.TemporaryFile("w+") as printed:  # a pipe without a reader would fill, and block the client
        _run(work, command, printed, seconds)
        printed.seek(0)
        work.journal.entries.extend(read_lines(printed))


def _run(work: Workplace, command: Sequence[str], printed: IO[str], seconds: float | None) -> None:
    address = [work.address, str(work.seed)]
    with subprocess.Popen([*command, *address], stdin=subprocess.PIPE, stdout=printed) as process:
        work.stopped.wait(seconds)
        try:
            process.communicate(timeout=END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            return
    if process.returncode > 0:
        raise ClientFailed(f"{command[-1]} ended with {process.returncode}")
