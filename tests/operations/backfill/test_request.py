"""What a backfill is asked for is one value that says whom it means, and travels as JSON."""

import json
from datetime import date

import pytest

from spark_jobs.pipeline.stage.backfill_request import BackfillRequest, UnfitRequest, read_request

FIRST, LAST = date(2024, 5, 1), date(2024, 5, 3)


def test_without_a_choice_everything_is_meant() -> None:
    request = BackfillRequest(first=FIRST, last=LAST)
    assert request.takes("gateway", "orders")
    assert request.takes_all


@pytest.mark.parametrize(
    ("source", "topic", "is_meant"),
    [
        ("gateway", "orders", True),
        ("gateway", "orders.eu", True),
        ("gateway", "clicks", False),
        ("other", "orders", False),
    ],
)
def test_chosen_topics_and_sources_must_both_fit(source: str, topic: str, is_meant: bool) -> None:
    request = BackfillRequest(first=FIRST, last=LAST, topics=("orders*",), sources=("gateway",))
    assert request.takes(source, topic) is is_meant


def test_only_the_days_asked_for_are_covered() -> None:
    request = BackfillRequest(first=FIRST, last=LAST)
    days = [date(2024, 4, 30), FIRST, LAST, date(2024, 5, 4)]
    assert [request.covers(day) for day in days] == [False, True, True, False]


def test_a_request_comes_back_from_json_as_it_was() -> None:
    request = BackfillRequest(
        first=FIRST, last=LAST, topics=("a", "b*"), sources=("gateway",), reason="why", drop_vanished=True
    )
    assert read_request(json.loads(json.dumps(request.to_plain()))) == request


def test_a_request_that_ends_before_it_begins_is_refused() -> None:
    with pytest.raises(UnfitRequest, match="ends before it begins"):
        BackfillRequest(first=LAST, last=FIRST)


def test_the_ledger_is_reported_days_choice_and_reason() -> None:
    request = BackfillRequest(first=FIRST, last=FIRST, topics=("orders",), reason="a gateway was late")
    assert request.reported == "backfill of 2024-05-01 (orders): a gateway was late"
