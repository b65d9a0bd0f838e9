"""The identity of a process, so that another one can check whether it is alive; and detached processes."""

import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
STATE_FIELD, START_FIELD = 0, 19
"""Positions after the command's closing bracket in /proc/PID/stat."""
ENDED = frozenset("ZX")
OWNER_ONLY = 0o600


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessIdentity:
    """A process on a machine; the start time distinguishes it from a later one with the same pid.

    `realm` is one boot of one kernel and one pid namespace; empty where that is not known.
    """

    host: str
    realm: str
    pid: int
    started: str

    def is_dead_for_sure(self) -> bool:
        """Whether the process has ended; False if it cannot be determined, in another realm."""
        return self._is_near() and _start_of(self.pid) != self.started

    def lives_for_sure(self) -> bool:
        """Whether the process runs in this realm."""
        return self._is_near() and _start_of(self.pid) == self.started

    def _is_near(self) -> bool:
        return bool(self.realm) and self.realm == _realm()


def this_process() -> ProcessIdentity:
    """The identity of the calling process."""
    return process(os.getpid())


def process(pid: int) -> ProcessIdentity:
    """The identity of a process that runs on this machine."""
    return ProcessIdentity(host=socket.gethostname(), realm=_realm(), pid=pid, started=_start_of(pid))


def start_apart(command: Sequence[str], *, environment: Mapping[str, str], log: Path) -> int:
    """Starts a program that outlives this process and shares nothing with it; returns its pid.

    It leads a process group of its own; what it prints goes to `log`, which only its owner can read.
    """
    return os.posix_spawn(
        command[0],
        list(command),
        environment,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(log), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, OWNER_ONLY),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
    )


def _realm() -> str:
    try:
        boot = (PROC / "sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {(PROC / 'self/ns/pid').readlink()}"
    except OSError:
        return ""


def _start_of(pid: int) -> str:
    """When the kernel started the process, in its own ticks; empty once it has ended, reaped or not."""
    try:
        fields = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[STATE_FIELD] in ENDED else fields[START_FIELD]
