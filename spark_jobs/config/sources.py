"""Settings of sources: kind, location, topics and dates."""

from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Annotated, Self

from pydantic import Field, model_validator

from spark_jobs.config.fields import Count, DateLayout, Flag, Frozen, Location, Name, NotEmpty, refuse

TRANSACTION_STATE, CONSUMER_OFFSETS = "__transaction_state", "__consumer_offsets"
INTERNAL_TOPICS = (TRANSACTION_STATE, CONSUMER_OFFSETS)
"""The coordinators' logs: staged with every source that has them, independent of its topic filter."""


class SourceKind(StrEnum):
    """What the objects are: batches as producers sent them, or a copy of a broker's log directory."""

    CAPTURE = "capture"
    BROKER_LOG = "broker-log"


ONLY_FOR = {
    "markers": (SourceKind.CAPTURE, "a broker's log is already decided"),
    "on_gap": (SourceKind.CAPTURE, "a broker's log is already decided"),
    "seed": (SourceKind.BROKER_LOG, "a broker's log knows its producers"),
}
"""Settings of one kind of source, and why no other kind has them."""


class OnGap(StrEnum):
    """What a run does with an out-of-order batch: reject it like a broker, or park it until the gap fills."""

    REJECT = "reject"
    PARK = "park"


class TopicFilter(Frozen):
    """Topics by shell pattern; a topic is taken if some `include` and no `exclude` matches."""

    include: Annotated[tuple[str, ...], NotEmpty] = ("*",)
    exclude: tuple[str, ...] = ()

    def takes(self, topic: str) -> bool:
        """Whether `topic` passes; the coordinators' logs always do."""
        if topic in INTERNAL_TOPICS:
            return True
        return _matches(topic, self.include) and not _matches(topic, self.exclude)


class Source(Frozen):
    """One location to stage from.

    `dates` is the layout of the directories right below the root that spell a date; without it objects have
    no date. `lookback_days` bounds the search for late objects. `immutable` objects are read at the source
    instead of copied. With `markers`, control batches in a capture are the coordinator's. With `seed`, this
    broker's log of a captured partition is its past: on its first run the capture continues where that log
    ends, with the producers that it knew.
    """

    name: Name
    kind: SourceKind
    root: Location
    topics: TopicFilter = TopicFilter()
    dates: DateLayout | None = None
    lookback_days: Annotated[Count, Field(ge=0)] | None = None
    immutable: Flag = False
    markers: Flag = False
    on_gap: OnGap = OnGap.REJECT
    seed: Flag = False

    @model_validator(mode="after")
    def _check_combination(self) -> Self:
        for name, (kind, why) in ONLY_FOR.items():
            if name in self.model_fields_set and self.kind is not kind:
                raise refuse(f"'{name}' only where kind is {kind}: {why}")
        if self.lookback_days is not None and self.dates is None:
            raise refuse("'lookback_days' only together with 'dates'")
        return self


def _matches(topic: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(topic, pattern) for pattern in patterns)
