"""What processes below this one have used: time of all cores, bytes read, the most memory."""

import os
import resource
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

TICKS = os.sysconf("SC_CLK_TCK")
SECONDS_BETWEEN_LOOKS = 0.5
"""Seldom: who looks takes time from those that are measured."""
PROC = Path("/proc")


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """One process as it was last seen."""

    pid: int
    command: str
    cpu_seconds: float
    read_bytes: int
    """Asked for by reads; what is mapped does not count."""
    written_bytes: int
    megabytes: int
    """The most that it has held."""


def descendants() -> Iterator[Usage]:
    """Every process below this one."""
    held_state = [os.getpid()]
    while held_state:
        below = _children(held_state.pop())
        held_state += below
        yield from (found for pid in below if (found := usage_of(pid)))


def _children(pid: int) -> list[int]:
    """Asked of the process itself, thread by thread, which costs next to nothing."""
    try:
        threads = list((PROC / str(pid) / "task").iterdir())
    except OSError:  # it has ended, and has none
        return []
    return [int(child) for thread in threads for child in _reported_by(thread)]


def _reported_by(thread: Path) -> list[str]:
    """What one thread has started; one that has ended meanwhile does not hide what others have."""
    try:
        return (thread / "children").read_text().split()
    except OSError:
        return []


def usage_of(pid: int) -> Usage | None:
    """None if the process has ended."""
    try:
        process = PROC / str(pid)
        numbers = (process / "stat").read_text().rpartition(")")[2].split()
        io = dict(line.split(": ") for line in (process / "io").read_text().splitlines())
        status = (process / "status").read_text()
        command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return None
    return Usage(
        pid=pid,
        command=command,
        cpu_seconds=(int(numbers[11]) + int(numbers[12])) / TICKS,
        read_bytes=int(io["rchar"]),
        written_bytes=int(io["wchar"]),
        megabytes=int((status.partition("VmHWM:")[2].split() or ["0"])[0]) // 1024,
    )


def children_cpu_seconds() -> float:
    """Of all processes that live below this one."""
    return sum(each.cpu_seconds for each in descendants())


def own_cpu_seconds() -> float:
    """Of this process alone."""
    times = os.times()
    return times.user + times.system


def own_read_bytes() -> int:
    """Asked for by reads of this process."""
    found = usage_of(os.getpid())
    return found.read_bytes if found else 0


@dataclass
class Watched:
    """Looks now and then at the processes below this one and remembers each, also after its end."""

    seen: dict[int, Usage] = field(default_factory=dict)
    before: dict[int, Usage] = field(default_factory=dict)
    own_seconds: float = 0.0
    own_read: int = 0

    def __enter__(self) -> Self:
        self.before = {each.pid: each for each in descendants()}
        self.own_seconds, self.own_read = own_cpu_seconds(), own_read_bytes()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._look()
        self.own_seconds = own_cpu_seconds() - self.own_seconds
        self.own_read = own_read_bytes() - self.own_read

    def cpu_seconds(self) -> float:
        """Of this process and all below it, while they were watched."""
        return self.own_seconds + sum(
            each.cpu_seconds - self._before(each, "cpu_seconds") for each in self.seen.values()
        )

    def workers(self) -> list[Usage]:
        """Spark's Python workers."""
        return [each for each in self.seen.values() if "pyspark.daemon" in each.command]

    def bytes_read(self) -> int:
        """Bytes that this process and the workers have read while they were watched."""
        workers = sum(each.read_bytes - self._before(each, "read_bytes") for each in self.workers())
        return int(workers) + self.own_read

    def workers_wrote(self) -> int:
        """Bytes that workers have written to files and pipes while they were watched."""
        return int(sum(each.written_bytes - self._before(each, "written_bytes") for each in self.workers()))

    def most_megabytes(self, word: str) -> int:
        """The most that one process with `word` in its command has held."""
        return max((each.megabytes for each in self.seen.values() if word in each.command), default=0)

    def _before(self, usage: Usage, name: str) -> float:
        before = self.before.get(usage.pid)
        return float(getattr(before, name)) if before else 0.0

    def _watch(self) -> None:
        while not self._stop.wait(SECONDS_BETWEEN_LOOKS):
            self._look()

    def _look(self) -> None:
        self.seen.update({each.pid: each for each in descendants()})


def own_peak_megabytes() -> int:
    """The most that this process has held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
