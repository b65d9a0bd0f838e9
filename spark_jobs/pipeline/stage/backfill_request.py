"""The request for a backfill; imports nothing heavy, since Airflow tasks import it."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import date
from fnmatch import fnmatchcase
from typing import Any

from spark_jobs.kafka.errors import OnceoverError
from spark_jobs.kafka.topic_partition import topic_of


class UnfitRequest(OnceoverError):
    """A backfill request that is invalid."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillRequest:
    """Recompute days `first` to `last` from their sources; later days follow as far as their state changes.

    Without `topics`, shell patterns, and without `sources`, names, everything is meant. `reason` is stored
    in the ledger. An object that its source has lost since stays in its run as long as the lake has a copy,
    unless `drop_vanished`.
    """

    first: date
    last: date
    topics: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    reason: str = ""
    drop_vanished: bool = False

    def __post_init__(self) -> None:
        if self.last < self.first:
            raise UnfitRequest(f"a backfill from {self.first} to {self.last} ends before it begins")

    def covers(self, day: date) -> bool:
        """Whether `day` itself is requested; other days only follow."""
        return self.first <= day <= self.last

    def takes(self, source: str, topic: str) -> bool:
        """Whether objects of `topic` from `source` are meant; patterns match all logs of a topic alike."""
        return (not self.sources or source in self.sources) and (
            not self.topics or any(fnmatchcase(topic_of(topic), pattern) for pattern in self.topics)
        )

    @property
    def takes_all(self) -> bool:
        return not self.topics and not self.sources

    def choice(self, day: date) -> list[object]:
        """What decides the inputs of `day`, as plain values."""
        if not self.covers(day):
            return ["follows"]
        return ["covers", list(self.topics), list(self.sources), self.drop_vanished]

    @property
    def reported(self) -> str:
        """One sentence for the ledger."""
        days = f"{self.first}" if self.first == self.last else f"{self.first} to {self.last}"
        chosen = ", ".join((*self.topics, *(f"source {name}" for name in self.sources)))
        return (
            f"backfill of {days}{f' ({chosen})' if chosen else ''}{f': {self.reason}' if self.reason else ''}"
        )

    def to_plain(self) -> dict[str, Any]:
        """Values that JSON has."""
        return {**asdict(self), "first": self.first.isoformat(), "last": self.last.isoformat()}


def read_request(plain: Mapping[str, Any]) -> BackfillRequest:
    """The request of `to_plain`, as JSON gives it back."""
    typed = {
        "first": date.fromisoformat(plain["first"]),
        "last": date.fromisoformat(plain["last"]),
        "topics": tuple(plain["topics"]),
        "sources": tuple(plain["sources"]),
    }
    return BackfillRequest(**{**plain, **typed})
