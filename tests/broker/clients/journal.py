"""What clients sent and what became of it, as far as they were told."""

import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

Sent = tuple[str, int, bytes]
"""Topic, partition and value; no value is ever sent twice on purpose."""
COPY, BY = b"copy of ", b" by "


def copy_of(value: bytes, transaction: str) -> bytes:
    """What read-process-write makes of `value`: every attempt writes a value of its own."""
    return COPY + value + BY + transaction.encode()


def original(copy: bytes) -> bytes:
    """The value that `copy` was made of."""
    return copy.removeprefix(COPY).rpartition(BY)[0]


class Outcome(StrEnum):
    """UNKNOWN: the client died or gave up before it learned more."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One transaction, or one acknowledged record of a producer without."""

    name: str
    values: tuple[Sent, ...]
    outcome: Outcome


@dataclass
class Journal:
    """Entries of all clients; threads share it."""

    entries: list[Entry] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, name: str, values: Iterable[Sent], outcome: Outcome) -> None:
        with self.lock:
            self.entries.append(Entry(name=name, values=tuple(values), outcome=outcome))
