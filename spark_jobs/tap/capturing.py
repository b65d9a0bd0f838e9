"""What the tap captures: journals on disk, closed by size and time, made into objects in order."""

import asyncio
import sys
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path

from spark_jobs.kafka.errors import OnceoverError
from spark_jobs.lake.object_store import ObjectStore, legible
from spark_jobs.tap.journal import Journal, Spool, day_of, seal_left
from spark_jobs.tap.messages import AppendRequest, PartAnswer
from spark_jobs.tap.objects import ObjectCounts, OnRefused, write_objects

TICK_SECONDS = 0.5
LAST_ATTEMPTS = 3
"""How often objects are tried when the tap is to end."""
MOST_LATE = 100_000
"""Markers that are kept in memory while the disk fails; more are missed."""
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
    markers: int = 0
    missed: int = 0
    uncaptured_versions: int = 0
    connections: int = 0
    objects: ObjectCounts = field(default_factory=ObjectCounts)

    def add(self, counts: ObjectCounts) -> None:
        for name in ObjectCounts.__slots__:
            setattr(self.objects, name, getattr(self.objects, name) + getattr(counts, name))


class NotJournalled(OnceoverError):
    """An answer that cannot be kept, so that the client must not get it."""


@dataclass(frozen=True, slots=True)
class Captured:
    """A request that was captured, so that its answer is, too; nothing if it was not."""

    capturing: "Capturing | None"
    number: int = 0

    def answered(self, answers: tuple[PartAnswer, ...] | None) -> None:
        """Keeps the broker's answer; None if the connection ended without one."""
        if self.capturing is not None:
            self.capturing.answer(self.number, answers)


@dataclass(slots=True)
class LateMarker:
    """A marker that went to the broker though the disk failed, and is captured once it works again.

    `answers` is None until there are some, and empty if the connection ended without.
    """

    request: AppendRequest
    received_at: int
    answers: tuple[PartAnswer, ...] | None = None


def say(text: str) -> None:
    """One line on stderr, with the time."""
    now = datetime.now(tz=UTC)
    print(f"{now:%Y-%m-%dT%H:%M:%SZ} tap: {legible(text)}", file=sys.stderr, flush=True)  # noqa: T201


class Capturing:
    """The journals of a running tap."""

    def __init__(self, settings: CaptureSettings, log: Callable[[str], None] = say) -> None:
        self.settings, self.log = settings, log
        self.statistics = Statistics()
        self._spool = Spool(settings.spool, settings.name)
        self._current: Journal | None = None
        self._opened_at = 0.0
        self._sealed: deque[Path] = deque()
        self._sealed_bytes: dict[Path, int] = {}
        self._number = time.time_ns()
        self._received_at = 0
        self._late: dict[int, LateMarker] = {}
        self._missed_since: dict[str, int] | None = None
        self._stopping = self._is_abandoned = False

    def locked_spool(self) -> Spool:
        """The folder of the journals."""
        return self._spool

    @property
    def spooled_bytes(self) -> int:
        """Bytes in journals that are not objects yet."""
        return sum(self._sealed_bytes.values()) + (self._current.size if self._current else 0)

    def recover(self) -> None:
        """Takes over the journals that an earlier process left."""
        left = self._spool.left()
        self._received_at = seal_left(left)
        self._spool.note(self._received_at)
        self._sealed.extend(left)
        self._sealed_bytes.update((path, path.stat().st_size) for path in left)
        if left:
            self.log(f"{len(left)} journals of an earlier process are made into objects first")

    async def keep(self, request: AppendRequest, size: int) -> Captured:
        """Returns when the request is in a journal, or, with `on_full: pass`, when it cannot be."""
        attempt = 0
        while True:
            problem = self._try(request, size)
            if isinstance(problem, Captured):
                return problem
            if self.settings.on_full is OnFull.PASS:
                return self._miss(request, problem)
            if attempt % 30 == 0:
                self.log(f"clients wait: {problem}")
            attempt += 1
            await asyncio.sleep(TICK_SECONDS)

    def _try(self, request: AppendRequest, size: int) -> Captured | str:
        if not request.is_marker and self.spooled_bytes + size > self.settings.spool_bytes:
            self._make_room()
            return f"the spool has its {self.settings.spool_bytes:,} bytes (--spool-bytes)"
        try:
            journal = self._open_journal()
            self._catch_up(journal)
            self._number += 1
            journal.request(self._number, request, self._now())
        except OSError as error:
            return f"{self.settings.spool}: {error.strerror}"
        captured = Captured(self, self._number)
        self._count(request, size)
        if journal.is_full(self.settings.rotate_bytes):
            self.rotate()
        return captured

    def _make_room(self) -> None:
        """If the current journal alone fills the spool, it is closed; unless most of it would be copied."""
        current = self._current
        if current is not None and not self._sealed_bytes and 2 * current.pending_bytes <= current.size:
            self.rotate()

    def _now(self) -> int:
        """The time of a request, which is in the names of objects: it never goes back."""
        self._received_at = max(self._received_at, milliseconds())
        return self._received_at

    def _count(self, request: AppendRequest, size: int) -> None:
        if request.is_marker:
            self.statistics.markers += len(request.parts)
        else:
            self.statistics.requests += 1
            self.statistics.request_bytes += size

    def _catch_up(self, journal: Journal) -> None:
        """Writes what could not be written before: which requests were missed, and markers."""
        if self._missed_since:
            journal.missed({**self._missed_since, "until": milliseconds()})
            self._missed_since = None
        while self._late:
            number, late = next(iter(self._late.items()))
            journal.request(number, late.request, late.received_at)
            del self._late[number]
            if late.answers is not None:
                journal.answer(number, late.answers)

    def answer(self, number: int, answers: tuple[PartAnswer, ...] | None) -> None:
        """Keeps the answer to a request; it must not go to the client if it cannot be kept."""
        if number in self._late:
            self._late[number].answers = answers or ()
        current = self._current
        if current is None or number not in current.pending:
            return
        try:
            self._catch_up(current)  # a late marker may be before this answer
            current.answer(number, answers)
        except OSError as error:
            current.pending.pop(number, None)
            if answers is None:
                return
            if self.settings.on_full is OnFull.BLOCK:
                raise NotJournalled(f"an answer was not kept: {error.strerror}") from error
            self._miss(None, str(error.strerror))

    def _miss(self, request: AppendRequest | None, problem: str) -> Captured:
        """Notes that a request, or only its answer (None), was not captured. Markers are captured later."""
        if self._missed_since is None:
            self._missed_since = {"since": milliseconds(), "requests": 0, "partitions": 0}
            self.log(f"requests go to the broker without being captured: {problem}")
        if request is not None and request.is_marker and len(self._late) < MOST_LATE:
            self._number += 1
            self._late[self._number] = LateMarker(request, self._now())
            return Captured(self, self._number)
        self._missed_since["requests"] += 1
        self._missed_since["partitions"] += len(request.parts) if request else 0
        self.statistics.missed += 1
        return Captured(None)

    def _open_journal(self) -> Journal:
        if self._current is None:
            self._current, self._opened_at = self._spool.new(), time.monotonic()
        return self._current

    def rotate(self) -> None:
        """Closes the current journal; requests without an answer go on in the next one."""
        current = self._current
        if current is None:
            return
        following = None
        try:
            self._spool.note(self._received_at)
            if current.pending:
                following = self._spool.new()
                following.copy_pending(current)
            current.seal(current.pending)
        except OSError as error:  # the current journal continues
            self.log(f"{current.path.name}: not closed: {error.strerror}")
            if following is not None:
                following.discard()
            return
        self._close(current)
        self._current, self._opened_at = following, time.monotonic()

    def _close(self, journal: Journal) -> None:
        asyncio.get_running_loop().run_in_executor(None, journal.close)
        self._sealed.append(journal.path)
        self._sealed_bytes[journal.path] = journal.size

    def _is_due(self) -> bool:
        if self._current is None:
            return False
        today = datetime.now(tz=UTC).strftime("%Y-%m-%d")
        is_old = time.monotonic() - self._opened_at >= self.settings.rotate_seconds
        return is_old or day_of(self._current.name) < today

    async def run(self) -> None:
        """Closes journals in time and makes them into objects, one after the other, until `stop`."""
        async with asyncio.TaskGroup() as group:
            closing = group.create_task(self._close_in_time())
            while not self._is_abandoned and (not self._stopping or self._sealed):
                if self._sealed:
                    await self._write(self._sealed.popleft())
                else:
                    await asyncio.sleep(TICK_SECONDS)
            closing.cancel()

    async def _close_in_time(self) -> None:
        """Also while the store fails: a journal has batches of one date, and is on the disk once closed."""
        while True:
            if self._is_due():
                self.rotate()
            await asyncio.sleep(TICK_SECONDS)

    def stop(self) -> None:
        """No more requests come: `run` ends when everything is written."""
        try:
            if self._late or self._missed_since:
                self._catch_up(self._open_journal())
            if self._current is not None:
                self._spool.note(self._received_at)
                self._current.seal()
                self._close(self._current)
        except OSError as error:
            self.log(f"{self.settings.spool}: {error.strerror}")
        self._current, self._stopping = None, True

    async def _write(self, path: Path) -> None:
        """Makes a sealed journal into objects, as often as it takes, and deletes it."""
        store, on_refused = self.settings.store, self.settings.on_refused
        for attempt in range(sys.maxsize):
            try:
                counts = await asyncio.to_thread(write_objects, path, store, on_refused)
            except (OnceoverError, OSError) as error:
                self.log(f"{path.name}: objects cannot be written, will be tried again: {error}")
                if self._stopping and attempt >= LAST_ATTEMPTS:
                    self._is_abandoned = True
                    self.log(f"{self.settings.spool}: journals are left, the next tap continues with them")
                    return
                await asyncio.sleep(PAUSES[min(attempt, len(PAUSES) - 1)])
            else:
                break
        await asyncio.to_thread(path.unlink, missing_ok=True)
        self._sealed_bytes.pop(path, None)
        self.statistics.add(counts)


def milliseconds() -> int:
    return time.time_ns() // 1_000_000
