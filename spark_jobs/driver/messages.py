"""What a task and the driver tell each other: one JSON object per line, nothing that could run code.

A task sends one request. The driver answers with any number of sentences and, at the end, with what it has
done or why it failed. Whoever closes the connection earlier is gone.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import date
from typing import Any

from spark_jobs.flow import Step


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Something for the driver of a lake; `master` and `conf` stand over what `config` says about Spark."""

    config: str
    master: str = ""
    conf: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRequest(Request):
    """One step of one night, in the run itself: never `report`.

    `goes_on` says that more steps of the same run will follow, so it does not become final with this one.
    `restage` has `stage` list the sources again though an earlier attempt has fixed the inputs.
    """

    day: date
    step: Step
    goes_on: bool
    restage: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcesRequest(Request):
    """Which sources the configuration has; a night begins with it, so Spark may start meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchRequest(Request):
    """The objects of one source, ahead of `stage`, which will `restage` or not."""

    day: date
    source: str
    restage: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportRequest(Request):
    """The step `report`, which needs no Spark; empty where nobody knows which run it is about."""

    run_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireRequest(Request):
    """Removal of what the configured retention lets go."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest(Request):
    """What a backfill would do; `backfill` is the plain form of a `BackfillRequest`."""

    backfill: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class DaysRequest(Request):
    """The days of a backfill that are due after `after` and up to `until`; empty for no bound."""

    backfill: Mapping[str, Any]
    after: str = ""
    until: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StopRequest:
    """The driver shall end: nothing more will be asked of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """Something for the task's log."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StepAnswer:
    """The step is done; `worked` is false if it had been done before.

    `tables` are those that a run of `publish` has left, each with its `snapshot_id` and `location`.
    """

    run_id: str
    worked: bool
    is_final: bool
    counts: Mapping[str, int]
    tables: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What was asked for beside the steps, as plain JSON values by name."""

    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """The step failed; `transient` says whether trying again can help, `trace` is for bug reports."""

    message: str
    transient: bool
    trace: str = ""


Errand = SourcesRequest | FetchRequest | ReportRequest | ExpireRequest | PlanRequest | DaysRequest
"""Requests that are answered by `Answer`."""
Message = StepRequest | Errand | StopRequest | Said | StepAnswer | Answer | Failure
_KINDS = (
    StepRequest,
    SourcesRequest,
    FetchRequest,
    ReportRequest,
    ExpireRequest,
    PlanRequest,
    DaysRequest,
    StopRequest,
    Said,
    StepAnswer,
    Answer,
    Failure,
)
_TYPES: dict[str, type[Any]] = {each.__name__: each for each in _KINDS}
_FROM_TEXT = {"day": date.fromisoformat, "step": Step}
"""Fields that JSON has no type for, by name."""


def write_message(message: Message) -> bytes:
    """One line."""
    fields = {
        name: str(value) if isinstance(value, date) else value for name, value in asdict(message).items()
    }
    return json.dumps({"is": type(message).__name__, **fields}).encode() + b"\n"


def read_message(line: bytes) -> Message:
    """The message in one line; both ends are of the same version, so nothing else can stand there."""
    fields = json.loads(line)
    kind = _TYPES[fields.pop("is")]
    typed = {name: _FROM_TEXT[name](text) for name, text in fields.items() if name in _FROM_TEXT}
    message: Message = kind(**{**fields, **typed})
    return message
