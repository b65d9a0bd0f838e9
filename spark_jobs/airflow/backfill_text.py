"""Texts of a backfill: its trigger form parsed, its plan as Markdown."""

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

from spark_jobs.backfilling.request import BackfillRequest, UnfitRequest


def backfill_of(params: Mapping[str, Any]) -> BackfillRequest:
    """The request that the form describes; errors name the form's fields."""
    first = date.fromisoformat(params["from"])
    last = date.fromisoformat(params["to"] or params["from"])
    if last < first:
        raise UnfitRequest(f"From ({first}) is after To ({last}): the range is empty")
    return BackfillRequest(
        first=first,
        last=last,
        topics=tuple(params["topics"]),
        sources=tuple(params["sources"]),
        reason=params["reason"],
    )


def as_markdown(title: str, days: Sequence[Mapping[str, Any]]) -> str:
    """The plan for people: a line per day with its reasons."""
    lines = [f"- {each['day']}: {_what(each)}" for each in days]
    return "\n".join([title, "", *(lines or ["No day is affected: there is no run yet."])])


def _what(day: Mapping[str, Any]) -> str:
    reasons = "; ".join(day["reasons"])
    if day["changes"]:
        return f"**runs again**, {reasons}"
    return f"may run again, {reasons}" if reasons else "stays as it is"
