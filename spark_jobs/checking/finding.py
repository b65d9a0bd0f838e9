"""What a check found, for a person who has to act on it."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

OnProgress = Callable[[str], None]


class Severity(StrEnum):
    """An error makes the lake's content wrong or incomplete; a note is something to know."""

    ERROR = "error"
    NOTE = "note"


class Part(StrEnum):
    """The part of the lake that a finding is about."""

    IDENTITY = "identity"
    CHAIN = "chain"
    RUNS = "runs"
    STATES = "states"
    OBJECTS = "objects"
    TABLES = "tables"
    LEDGER = "ledger"
    REPLAYS = "replays"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """`place` is an address, a run or a table; `remedy` says what to do, empty if nothing has to be done."""

    part: Part
    place: str
    problem: str
    remedy: str = ""
    severity: Severity = Severity.ERROR
