"""A process of the test rig: started, awaited until it is ready, stopped with the block."""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from infra.embedded.home import LOOPBACK

SECONDS_TO_START, SECONDS_TO_END, SECONDS_BETWEEN_LOOKS = 180.0, 20.0, 0.1
TAIL_BYTES = 2000


class ServiceFailed(Exception):
    """A service of the rig did not come up; its last words are in the message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """A program and what it needs; it is up when `port` answers, at once where there is none.

    `user` is whom it runs as, if not as the caller. SIGTERM ends it unless `stop` says otherwise.
    """

    name: str
    command: Sequence[str]
    log: Path
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    port: int | None = None
    user: str | None = None
    stop: signal.Signals = signal.SIGTERM


@contextmanager
def running(service: Service) -> Iterator[None]:
    """The service, from the moment it answers to the end of the block; nothing of it is left behind."""
    with service.log.open("wb") as log:
        process = subprocess.Popen(  # noqa: S603 — our own programs
            service.command,
            env=service.environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            user=service.user,
            group=service.user,
            start_new_session=True,
        )
    try:
        _wait(process, service)
        yield
    finally:
        _end(process, service.stop)


def _wait(process: subprocess.Popen[bytes], service: Service) -> None:
    deadline = time.monotonic() + SECONDS_TO_START
    while time.monotonic() < deadline and process.poll() is None:
        if service.port is None or _answers(service.port):
            return
        time.sleep(SECONDS_BETWEEN_LOOKS)
    raise ServiceFailed(f"{service.name} did not come up:\n{_tail(service.log)}")


def _answers(port: int) -> bool:
    with socket.socket() as trial:
        return trial.connect_ex((LOOPBACK, port)) == 0


def _end(process: subprocess.Popen[bytes], sign: signal.Signals) -> None:
    """The program first, then the rest of its process group: a worker's executors, a scheduler's tasks."""
    process.send_signal(sign)
    try:
        process.wait(SECONDS_TO_END)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _tail(log: Path) -> str:
    return log.read_bytes()[-TAIL_BYTES:].decode(errors="replace").strip()
