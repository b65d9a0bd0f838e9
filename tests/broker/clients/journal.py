"""What clients sent, and the outcome that they were given."""

import threading
from collections.abc import Iterable, Iterator
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


class PrintedJournal(Journal):
    """Of a client in a process of its own: a line for each entry."""

    def note(self, name: str, values: Iterable[Sent], outcome: Outcome) -> None:
        sent = (f"{topic} {partition} {value.decode()}" for topic, partition, value in values)
        with self.lock:
            print("\t".join([outcome, name, *sent]), flush=True)


def read_lines(lines: Iterable[str]) -> Iterator[Entry]:
    """The entries that were printed; a killed client may have left the last one unfinished."""
    for line in lines:
        if line.endswith("\n"):
            outcome, name, *sent = line.removesuffix("\n").split("\t")
            yield Entry(name=name, values=tuple(map(_sent, sent)), outcome=Outcome(outcome))


def _sent(text: str) -> Sent:
    topic, partition, value = text.split(" ", 2)
    return topic, int(partition), value.encode()
