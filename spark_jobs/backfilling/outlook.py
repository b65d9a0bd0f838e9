"""What a backfill would do, as values: days, and the reasons why they run again."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import date
from enum import StrEnum
from typing import Any

from spark_jobs.backfilling.request import BackfillRequest


class Why(StrEnum):
    """What makes a day run again."""

    NO_RUN = "no run yet"
    NEW = "new"
    LATE = "late"
    CHANGED = "changed"
    VANISHED = "vanished"
    MOVED = "moved"
    REPLAYS = "replays"
    CONFIG = "config"
    STATE = "state"
    IF_STATE = "if state"


SENTENCES: Mapping[Why, str] = {
    Why.NO_RUN: "the day has no current run, but later days have",
    Why.NEW: "{count} that arrived after the run and no run has taken",
    Why.LATE: "{count} that arrived late and a later run has taken",
    Why.CHANGED: "{count} with other bytes than before",
    Why.VANISHED: "{count} that their source does not have any more",
    Why.MOVED: "{count} that an earlier day takes now",
    Why.REPLAYS: "its replays of quarantined batches have changed",
    Why.CONFIG: "the configuration decides otherwise now",
    Why.STATE: "the previous run ends in another state than it started from",
    Why.IF_STATE: "if the state of {day} changes",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """One reason; `objects` are `source/path` of all that it is about."""

    why: Why
    sentence: str
    objects: tuple[str, ...] = ()


def reason(why: Why, objects: tuple[str, ...] = (), day: date | None = None) -> Reason:
    """The reason with its sentence."""
    count = f"{len(objects):,} object{'' if len(objects) == 1 else 's'}"
    return Reason(why=why, sentence=SENTENCES[why].format(count=count, day=day), objects=objects)


@dataclass(frozen=True, slots=True, kw_only=True)
class DayPlan:
    """One day; `run_id` is its current run, empty if there is none.

    `missed` counts objects that their source has lost; their copies in the lake are still used.
    """

    day: date
    run_id: str
    reasons: tuple[Reason, ...] = ()
    missed: int = 0

    @property
    def changes(self) -> bool:
        """Whether the day runs again for certain."""
        return any(each.why is not Why.IF_STATE for each in self.reasons)

    def to_plain(self) -> dict[str, Any]:
        """Values that JSON has."""
        return {**asdict(self), "day": self.day.isoformat(), "changes": self.changes}


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillPlan:
    """The requested days and those that would or might change, ascending."""

    request: BackfillRequest
    days: tuple[DayPlan, ...] = ()

    @property
    def changes(self) -> bool:
        """Whether anything would run."""
        return any(day.changes for day in self.days)
