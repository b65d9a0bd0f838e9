"""What the tap captures: journals on disk, closed by size and time, made into objects in order."""

import asyncio
import sys
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path

from spark_jobs.kafka.errors import OnceoverError
from spark_jobs.lake.object_store import ObjectStore, legible
from spark_jobs.tap.journal import Journal, Spool, day_of, seal_left
from spark_jobs.tap.messages import PartAnswer, ProduceRequest
from spark_jobs.tap.objects import ObjectCounts, OnRefused, write_objects

TICK_SECONDS = 0.5
ANSWER_SECONDS = 60.0
"""How long a closed journal waits for answers that are still to come."""
LAST_ATTEMPTS = 3
"""How often objects are tried when the tap is to end."""
PAUSES = (1, 2, 5, 10, 30, 60)
"""Seconds between attempts to write objects, and between attempts to write to a full disk."""


class OnFull(StrEnum):
    """What happens to requests that cannot be captured: they go to the broker all the same, or wait."""

    PASS = "pass"  # noqa: S105 - no password
    BLOCK = "block"


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureSettings:
    """Limits of the journals, and where their objects go."""

    store: ObjectStore
    spool: Path
    name: str
    on_full: OnFull = OnFull.BLOCK
    on_refused: OnRefused = OnRefused.ASIDE
    rotate_bytes: int = 64 * 2**20
    rotate_seconds: float = 60.0
    spool_bytes: int = 4 * 2**30


@dataclass(slots=True, kw_only=True)
class Statistics:
    """Counts since the start of the tap."""

    requests: int = 0
    request_bytes: int = 0
    missed: int = 0
    uncaptured_versions: int = 0
    connections: int = 0
    objects: ObjectCounts = field(default_factory=ObjectCounts)

    def add(self, counts: ObjectCounts) -> None:
        for name in ObjectCounts.__slots__:
            setattr(self.objects, name, getattr(self.objects, name) + getattr(counts, name))


@dataclass(frozen=True, slots=True)
class Captured:
    """A request in its journal, so that its answer gets there, too; nothing if it was not captured."""

    journal: Journal | None
    number: int = 0

    def answered(self, answers: tuple[PartAnswer, ...] | None) -> None:
        """Keeps the broker's answer; None if the connection ended without one."""
        if self.journal is not None and self.number in self.journal.pending:
            with suppress(OSError):  # a full disk: the request has no answer then
                self.journal.answer(self.number, answers)


def say(text: str) -> None:
    """One line on stderr, with the time."""
    now = datetime.now(tz=UTC)
    print(f"{now:%Y-%m-%dT%H:%M:%SZ} tap: {legible(text)}", file=sys.stderr, flush=True)  # noqa: T201


class Capturing:
    """The journals of a running tap."""

    def __init__(self, settings: CaptureSettings, tell: Callable[[str], None] = say) -> None:
        self.settings, self.tell = settings, tell
        self.statistics = Statistics()
        self._spool = Spool(settings.spool, settings.name)
        self._current: Journal | None = None
        self._opened_at = 0.0
        self._closed: deque[tuple[Journal, float]] = deque()
        self._left: deque[Path] = deque()
        self._sealed_bytes: dict[Path, int] = {}
        self._number = 0
        self._missed_since: dict[str, int] | None = None
        self._stopping = self._is_abandoned = False

    def locked_spool(self) -> Spool:
        """The folder of the journals."""
        return self._spool

    @property
    def spooled_bytes(self) -> int:
        """Bytes in journals that are not objects yet."""
        unsealed = [journal for journal, _ in self._closed] + ([self._current] if self._current else [])
        return sum(self._sealed_bytes.values()) + sum(journal.size for journal in unsealed)

    def recover(self) -> None:
        """Takes over the journals that an earlier process left."""
        for path in self._spool.left():
            seal_left(path)
            self._left.append(path)
            self._sealed_bytes[path] = path.stat().st_size
        if self._left:
            self.tell(f"{len(self._left)} journals of an earlier process are made into objects first")

    async def keep(self, request: ProduceRequest, size: int) -> Captured:
        """Returns when the request is in a journal, or, with `on_full: pass`, when it cannot be."""
        attempt = 0
        while True:
            problem = self._try(request, size)
            if isinstance(problem, Captured):
                return problem
            if self.settings.on_full is OnFull.PASS:
                return self._miss(len(request.parts), problem)
            if attempt % 30 == 0:
                self.tell(f"clients wait: {problem}")
            attempt += 1
            await asyncio.sleep(TICK_SECONDS)

    def _try(self, request: ProduceRequest, size: int) -> Captured | str:
        if self.spooled_bytes + size > self.settings.spool_bytes:
            return f"the spool has its {self.settings.spool_bytes:,} bytes (--spool-bytes)"
        try:
            journal = self._open_journal()
            if self._missed_since:
                journal.missed({**self._missed_since, "until": _milliseconds()})
                self._missed_since = None
            self._number += 1
            journal.request(self._number, request, _milliseconds())
        except OSError as error:
            return f"{self.settings.spool}: {error.strerror}"
        self.statistics.requests += 1
        self.statistics.request_bytes += size
        captured = Captured(journal, self._number)
        if journal.size >= self.settings.rotate_bytes:
            self.rotate()
        return captured

    def _miss(self, parts: int, problem: str) -> Captured:
        if self._missed_since is None:
            self._missed_since = {"since": _milliseconds(), "requests": 0, "partitions": 0}
            self.tell(f"requests go to the broker without being captured: {problem}")
        self._missed_since["requests"] += 1
        self._missed_since["partitions"] += parts
        self.statistics.missed += 1
        return Captured(None)

    def _open_journal(self) -> Journal:
        if self._current is None:
            self._current, self._opened_at = self._spool.new(), time.monotonic()
        return self._current

    def rotate(self) -> None:
        """Closes the current journal for requests; its answers still come."""
        if self._current is not None:
            self._closed.append((self._current, time.monotonic()))
            self._current = None

    def _is_due(self) -> bool:
        if self._current is None:
            return False
        today = datetime.now(tz=UTC).strftime("%Y-%m-%d")
        is_old = time.monotonic() - self._opened_at >= self.settings.rotate_seconds
        return is_old or day_of(self._current.name) < today

    async def run(self) -> None:
        """Closes journals in time and makes them into objects, one after the other, until `stop`."""
        while not self._is_abandoned and (not self._stopping or self._left or self._closed):
            if self._is_due():
                self.rotate()
            path = self._next()
            if path is None:
                await asyncio.sleep(TICK_SECONDS)
            else:
                await self._write(path)

    def stop(self) -> None:
        """No more requests come: `run` ends when everything is written."""
        self.rotate()
        self._stopping = True

    def _next(self) -> Path | None:
        """The oldest journal, if it is sealed or can be."""
        if self._left:
            return self._left.popleft()
        if not self._closed:
            return None
        journal, closed_at = self._closed[0]
        is_waiting = journal.pending and time.monotonic() - closed_at < ANSWER_SECONDS
        if is_waiting and not self._stopping:
            return None
        try:
            journal.seal()
        except OSError as error:
            self.tell(f"{journal.path}: {error.strerror}")
            self._is_abandoned = self._stopping
            return None
        journal.pending.clear()
        self._closed.popleft()
        self._sealed_bytes[journal.path] = journal.size
        return journal.path

    async def _write(self, path: Path) -> None:
        """Makes a sealed journal into objects, as often as it takes, and deletes it."""
        store, on_refused = self.settings.store, self.settings.on_refused
        for attempt in range(sys.maxsize):
            try:
                counts = await asyncio.to_thread(write_objects, path, store, on_refused)
            except (OnceoverError, OSError) as error:
                self.tell(f"{path.name}: objects cannot be written, will be tried again: {error}")
                if self._stopping and attempt >= LAST_ATTEMPTS:
                    self._is_abandoned = True
                    self.tell(f"{self.settings.spool}: journals are left, the next tap continues with them")
                    return
                await asyncio.sleep(PAUSES[min(attempt, len(PAUSES) - 1)])
            else:
                break
        await asyncio.to_thread(path.unlink, missing_ok=True)
        self._sealed_bytes.pop(path, None)
        self.statistics.add(counts)


def _milliseconds() -> int:
    return time.time_ns() // 1_000_000
