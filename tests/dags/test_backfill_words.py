"""What the form of a backfill asks for, and how its plan is shown."""

from datetime import date
from typing import Any

import pytest

from spark_jobs.airflow.backfill import FORM as FIELDS
from spark_jobs.airflow.backfill import as_markdown, backfill_of
from spark_jobs.pipeline.stage.backfill_request import UnfitRequest

FORM: dict[str, Any] = {
    "from": "2026-03-01",
    "to": None,
    "topics": [],
    "sources": [],
    "reason": "late objects",
}


def test_without_an_end_a_backfill_is_about_one_day() -> None:
    request = backfill_of(FORM)

    assert (request.first, request.last) == (date(2026, 3, 1), date(2026, 3, 1))


def test_everything_in_the_form_is_asked_for() -> None:
    request = backfill_of({**FORM, "to": "2026-03-04", "topics": ["orders*"], "sources": ["gateway"]})

    assert (request.last, request.topics, request.sources) == (date(2026, 3, 4), ("orders*",), ("gateway",))
    assert request.reason == "late objects"


def test_fields_that_the_form_leaves_empty_are_no_filter() -> None:
    """Airflow marks a field as required unless it may be null."""
    request = backfill_of({**FORM, "topics": None, "sources": None})

    assert (request.topics, request.sources) == ((), ())
    fields = {name: given["type"] for name, given in ((name, FIELDS[name].schema) for name in FORM)}
    assert {name for name, kind in fields.items() if "null" not in kind} == {"from", "reason"}


def test_an_end_before_the_beginning_is_reported_in_the_forms_words() -> None:
    with pytest.raises(UnfitRequest, match=r"From \(2026-03-01\) is after To \(2026-02-28\)"):
        backfill_of({**FORM, "to": "2026-02-28"})


def test_a_plan_has_a_line_per_day_that_says_why() -> None:
    days = [
        {"day": "2026-03-01", "changes": True, "reasons": ["1 object came late", "the state differs"]},
        {"day": "2026-03-02", "changes": False, "reasons": ["if the state of 2026-03-01 changes"]},
        {"day": "2026-03-03", "changes": False, "reasons": []},
    ]

    assert as_markdown("backfill of 2026-03-01", days).splitlines() == [
        "backfill of 2026-03-01",
        "",
        "- 2026-03-01: **runs again**, 1 object came late; the state differs",
        "- 2026-03-02: may run again, if the state of 2026-03-01 changes",
        "- 2026-03-03: stays as it is",
    ]


def test_a_plan_without_days_says_so() -> None:
    assert "there is no run yet" in as_markdown("backfill", [])
