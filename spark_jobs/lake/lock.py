"""The lock of a lake: one run at a time, a second one fails with the holder's name.

Locks are numbered, and the highest number counts. A process takes the lock by the exclusive creation of the
next number, so exactly one of several contenders wins. The lock of a holder that has ended can be taken
over: on this machine, one whose process has ended; on another machine, one whose heartbeat does not change
for a whole lease, measured with the clock of the observer. The lock only keeps runs from doing the same work
twice; the chain guarantees that only one becomes final.
"""

import json
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass

from spark_jobs.config.canonical import canonical_json
from spark_jobs.lake.errors import LakeBusy, LockLost, ObjectMissing, StorageError, understood
from spark_jobs.lake.layout import LOCKS, lock_key
from spark_jobs.lake.object_store import ObjectStore
from spark_jobs.lake.process_identity import ProcessIdentity, this_process

LEASE_SECONDS = 30.0
BEATS_PER_LEASE = 4
HOLDER, BEAT, RELEASED = "json", "beat", "released"
_HELD: set[str] = set()
"""Tokens of the locks that this process holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """The process that holds lock `number`, and its purpose."""

    number: int
    purpose: str
    token: str
    process: ProcessIdentity

    def __str__(self) -> str:
        return f"{self.purpose} (process {self.process.pid} on {self.process.host})"


class LakeLock:
    """A lock that is held; call `check` before an action that only the holder may take."""

    def __init__(self, lake: ObjectStore, holder: Holder) -> None:
        self.holder = holder
        self._lake = lake

    def check(self) -> None:
        """Raises `LockLost` if another run has taken over."""
        newest = _newest(self._lake)
        if newest is not None and newest.number > self.holder.number:
            raise LockLost(f"the lease of {self.holder} expired; {newest} holds the lock of the lake now")

    def beat(self, count: int) -> None:
        """Writes a heartbeat."""
        self._lake.put(lock_key(self.holder.number, BEAT), str(count).encode())

    def release(self) -> None:
        """Frees the lock."""
        self._lake.put(lock_key(self.holder.number, RELEASED), b"")


@contextmanager
def lake_lock(lake: ObjectStore, *, purpose: str, lease_s: float = LEASE_SECONDS) -> Iterator[LakeLock]:
    """Holds the lake's lock; raises `LakeBusy` with the holder's name if another run has it."""
    lock = LakeLock(lake, _acquire(lake, purpose, lease_s))
    stop = threading.Event()
    beats = threading.Thread(target=_keep_beating, args=(lock, stop, lease_s), daemon=True)
    beats.start()
    try:
        yield lock
    finally:
        _HELD.discard(lock.holder.token)
        stop.set()
        beats.join()
        lock.release()


def current_holder(lake: ObjectStore) -> Holder | None:
    """The holder of the lock; None if it is free or its holder is known to have ended."""
    newest = _newest(lake)
    if newest is None or _is_over(lake, newest):
        return None
    return newest


def _acquire(lake: ObjectStore, purpose: str, lease_s: float) -> Holder:
    while True:
        newest = _newest(lake)
        if newest is not None and not _is_free(lake, newest, lease_s):
            raise LakeBusy(
                f"{lake.url}: {newest} holds the lock of this lake; wait until it has ended, then run again"
            )
        holder = Holder(
            number=newest.number + 1 if newest else 1,
            purpose=purpose,
            token=secrets.token_hex(16),
            process=this_process(),
        )
        if _take(lake, holder):
            _clear_before(lake, holder.number)
            return holder


def _take(lake: ObjectStore, holder: Holder) -> bool:
    """Whether `holder` got the lock; its token is registered in this process before others can see it."""
    _HELD.add(holder.token)
    is_ours = False
    try:
        is_ours = _create(lake, holder)
    finally:
        if not is_ours:
            _HELD.discard(holder.token)
    return is_ours


def _create(lake: ObjectStore, holder: Holder) -> bool:
    """Whether `holder` got the lock: its number was free, and no higher one was taken meanwhile."""
    if not lake.put_if_absent(lock_key(holder.number), canonical_json(asdict(holder))):
        return False
    newest = _newest(lake)
    if newest is not None and newest.number > holder.number:
        lake.delete(lock_key(holder.number))
        return False
    return True


def _is_free(lake: ObjectStore, holder: Holder, lease_s: float) -> bool:
    if _is_over(lake, holder):
        return True
    return not holder.process.lives_for_sure() and _has_no_heartbeat(lake, holder, lease_s)


def _is_over(lake: ObjectStore, holder: Holder) -> bool:
    """Whether the lock is free: released, held by a dead process, or abandoned by this process."""
    is_left = holder.process == this_process() and holder.token not in _HELD
    return is_left or _is_released(lake, holder) or holder.process.is_dead_for_sure()


def _has_no_heartbeat(lake: ObjectStore, holder: Holder, lease_s: float) -> bool:
    """Watches the heartbeat of another machine's process for up to a lease."""
    first, pause = _read_beat(lake, holder), lease_s / BEATS_PER_LEASE / 2
    deadline = time.monotonic() + lease_s
    while time.monotonic() < deadline:
        time.sleep(pause)
        if _read_beat(lake, holder) != first or _is_released(lake, holder):
            return _is_released(lake, holder)
    return True


def _keep_beating(lock: LakeLock, stop: threading.Event, lease_s: float) -> None:
    count = 0
    while not stop.wait(lease_s / BEATS_PER_LEASE if count else 0):
        count += 1
        try:
            lock.beat(count)
        except StorageError:
            continue  # a store that is unavailable for longer loses the lock, and `check` raises


def _newest(lake: ObjectStore) -> Holder | None:
    numbers = [found.key for found in lake.list(LOCKS) if found.key.endswith(f".{HOLDER}")]
    try:
        return _read_holder(lake.read(numbers[-1]), source=lake.url_of(numbers[-1])) if numbers else None
    except ObjectMissing:
        return _newest(lake)  # cleared by a newer holder since it was listed


def _read_holder(data: bytes, *, source: str) -> Holder:
    with understood(source, "if nothing works on this lake, remove it"):
        plain = json.loads(data)
        return Holder(**{**plain, "process": ProcessIdentity(**plain["process"])})


def _read_beat(lake: ObjectStore, holder: Holder) -> bytes:
    try:
        return lake.read(lock_key(holder.number, BEAT))
    except ObjectMissing:
        return b""


def _is_released(lake: ObjectStore, holder: Holder) -> bool:
    return lake.stat(lock_key(holder.number, RELEASED)) is not None


def _clear_before(lake: ObjectStore, number: int) -> None:
    for found in tuple(lake.list(LOCKS)):
        if int(found.key.removeprefix(LOCKS).partition(".")[0]) < number:
            lake.delete(found.key)
