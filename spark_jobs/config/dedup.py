"""Settings of `dedup`: which business id a topic's records have, and where the same id is a duplicate."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from spark_jobs.config.canonical import digest_of
from spark_jobs.config.fields import Frozen, refuse

DAYS = re.compile(r"([1-9]\d{0,4})\s*d")
KEY, HEADER = "key", "header:"
PATH = re.compile(r"[^.\s]+(\.[^.\s]+)*")


class NullId(StrEnum):
    """What becomes of a record without an id: it is published, and never a duplicate."""

    KEEP = "keep"


def parse_days(value: Any) -> Any:
    """`90d` → 90."""
    match = DAYS.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is not None:
        return int(match[1])
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    raise refuse("a number of days, such as 90d, or null for all history")


def parse_id(value: Any) -> Any:
    """`key`, `header:NAME`, or names of fields of the value, of which one alone needs no list."""
    if isinstance(value, str) and value != KEY and not value.startswith(HEADER):
        return (value,)
    return value


def check_id(value: str | tuple[str, ...]) -> str | tuple[str, ...]:
    """A place where an id can be."""
    if value == KEY or (isinstance(value, str) and len(value) > len(HEADER)):
        return value
    if isinstance(value, str) or not value or not all(PATH.fullmatch(name) for name in value):
        raise refuse("'key', 'header:NAME', or a list of fields of the value, such as [order_id]")
    if len(set(value)) < len(value):
        raise refuse("fields that are named once each")
    return value


def check_scope(value: str | tuple[str, ...]) -> str | tuple[str, ...]:
    """`topic`, or topics whose ids are compared with each other."""
    if isinstance(value, tuple) and (not value or len(set(value)) < len(value)):
        raise refuse("'topic', or a list of topics that are named once each")
    return tuple(sorted(value)) if isinstance(value, tuple) else value


IdSource = Annotated[str | tuple[str, ...], BeforeValidator(parse_id), AfterValidator(check_id)]
Scope = Annotated[Literal["topic"] | tuple[str, ...], AfterValidator(check_scope)]
Window = Annotated[int, BeforeValidator(parse_days), Field(le=36_500)]


class DedupSettings(Frozen):
    """The business id of a topic's records; of records with the same id the first one stays.

    `scope` are the topics whose ids are compared with each other. `window` is how many days before a run's
    date the first record may have been published to count as the first; without it, all history counts.
    """

    id: IdSource
    scope: Scope = "topic"
    window: Window | None = None
    null_id: NullId = NullId.KEEP


@dataclass(frozen=True, kw_only=True)
class IdRule:
    """The settings of topics whose ids are compared with each other; `scope` names them in the index."""

    scope: tuple[str, ...]
    id: str | tuple[str, ...]
    window: int | None = None

    @cached_property
    def digest(self) -> str:
        """Names the index: an index of another rule is of no use."""
        return digest_of({"scope": self.scope, "id": self.id, "window": self.window})

    @property
    def name(self) -> str:
        """The rule in messages: its topics."""
        return ", ".join(self.scope)

    def first_day(self, day: int) -> int:
        """The earliest run date, in days since 1970, of a first record for a record of `day`."""
        return day - self.window if self.window is not None else -(2**31)


def rule_of(topic: str, settings: DedupSettings) -> IdRule:
    """The rule of a topic; one that its own list does not name is compared with itself."""
    scope = settings.scope if isinstance(settings.scope, tuple) and topic in settings.scope else (topic,)
    return IdRule(scope=scope, id=settings.id, window=settings.window)


def rules_of(dedup: Iterable[tuple[str, str, DedupSettings | None]]) -> Iterator[tuple[IdRule, list[str]]]:
    """Each rule, by scope, with its logs; `dedup` has a log, its topic, and the topic's settings each."""
    found: dict[tuple[str, ...], tuple[IdRule, list[str]]] = {}
    for log, topic, settings in dedup:
        if settings is not None:
            rule = rule_of(topic, settings)
            found.setdefault(rule.scope, (rule, []))[1].append(log)
    for _, (rule, logs) in sorted(found.items()):
        yield rule, sorted(logs)
