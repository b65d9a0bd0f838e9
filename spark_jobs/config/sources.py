"""Settings of sources: kind, location, topics and dates."""

import re
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, model_validator

from spark_jobs.config.fields import (
    Count,
    DateLayout,
    Flag,
    Frozen,
    Location,
    Name,
    NotEmpty,
    check_location,
    refuse,
)

TRANSACTION_STATE, CONSUMER_OFFSETS = "__transaction_state", "__consumer_offsets"
INTERNAL_TOPICS = (TRANSACTION_STATE, CONSUMER_OFFSETS)
"""The coordinators' logs: staged with every source that has them, independent of its topic filter."""


class SourceKind(StrEnum):
    """What the objects are: batches as producers sent them, a copy of a broker's log directory, or what
    brokers uploaded to tiered storage.
    """

    CAPTURE = "capture"
    BROKER_LOG = "broker-log"
    TIERED = "tiered"


class TierLayout(StrEnum):
    """Which plugin uploaded the objects of tiered storage: how it names and encodes them."""

    LOCAL = "local"
    AIVEN = "aiven"
    PINTEREST = "pinterest"


NOT_SUPPORTED = (
    "redpanda",
    "automq",
    "msk",
    "confluent",
    "warpstream",
    "bufstream",
    "iceberg",
    "aiven-iceberg",
)
"""Layouts that people ask for: their objects are not Kafka's segments, or not documented."""


def check_layout(value: Any) -> Any:
    """Names the layouts that are known and not supported, instead of calling them misspelt."""
    if isinstance(value, str) and value.lower() in NOT_SUPPORTED:
        raise refuse(
            f"{', '.join(TierLayout)}; objects of {value} are not read. Read the topics from the cluster or "
            "from copies of log directories"
        )
    return value


KEY_REFERENCE = re.compile(r"file:[^\r\n]+|env:[A-Za-z_][A-Za-z0-9_]*")
KEY_REFERENCE_FORM = "file:PATH or env:VARIABLE with a private key in PEM format, never the key itself"


def check_key_reference(value: str, info: ValidationInfo) -> str:
    """Where a key is; a relative path is made absolute from the context's `base`."""
    if KEY_REFERENCE.fullmatch(value) is None:
        raise refuse(KEY_REFERENCE_FORM)
    how, _, where = value.partition(":")
    return value if how == "env" else f"file:{check_location(where, info)}"


ONLY_FOR = {
    "markers": (SourceKind.CAPTURE, "a broker's log is already decided"),
    "on_gap": (SourceKind.CAPTURE, "a broker's log is already decided"),
    "seed": (SourceKind.BROKER_LOG, "a broker's log knows its producers"),
    "layout": (SourceKind.TIERED, "other objects have one layout"),
    "encryption_keys": (SourceKind.TIERED, "other objects are not encrypted by their writer"),
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
    ends, with the producers that it knew. `layout` says which plugin wrote to tiered storage;
    `encryption_keys` are references to RSA private keys by the id in its manifests.
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
    layout: Annotated[TierLayout | None, BeforeValidator(check_layout)] = None
    encryption_keys: dict[str, Annotated[str, AfterValidator(check_key_reference)]] = Field(
        default_factory=dict
    )

    @property
    def not_set(self) -> set[str]:
        """Newer keys without a value: what earlier versions have fixed for a source is still found."""
        return {name for name in ("layout", "encryption_keys") if not getattr(self, name)}

    @model_validator(mode="after")
    def _check_combination(self) -> Self:
        for name, (kind, why) in ONLY_FOR.items():
            if name in self.model_fields_set and self.kind is not kind:
                raise refuse(f"'{name}' only where kind is {kind}: {why}")
        if self.lookback_days is not None and self.dates is None:
            raise refuse("'lookback_days' only together with 'dates'")
        if self.kind is SourceKind.TIERED:
            self._check_tiered()
        return self

    def _check_tiered(self) -> None:
        if self.layout is None:
            raise refuse(f"'layout' where kind is {SourceKind.TIERED}: {', '.join(TierLayout)}")
        if self.dates is not None:
            raise refuse("no 'dates' where kind is tiered: brokers do not upload by date")
        if self.immutable and self.layout is TierLayout.AIVEN:
            raise refuse("no 'immutable' where layout is aiven: its chunks are decoded into the lake")
        if self.encryption_keys and self.layout is not TierLayout.AIVEN:
            raise refuse("'encryption_keys' only where layout is aiven: the others do not encrypt")


def _matches(topic: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(topic, pattern) for pattern in patterns)
