"""Verdicts held against the answers that a capture has."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.config.audit import ExpectationName
from spark_jobs.flow import Step
from spark_jobs.kafka.errors import KafkaError
from spark_jobs.lake.layout import step_key
from spark_jobs.lake.parquet_file import read_table
from spark_jobs.lake.stores import open_lake
from spark_jobs.run import RunOutcome
from tests.operations.replay.runs import Shop, rows_of, run
from tests.pipeline.batches import batch

FITS = b'{"amount": 1, "note": "x"}'
NAME = ExpectationName.VERDICTS_ARE_THE_BROKERS_ANSWERS
pytestmark = pytest.mark.usefixtures("great_expectations")


def arrive(shop: Shop, answered: Sequence[tuple[bytes, int | None]], *, name: str = "a") -> None:
    """An object with these batches and the broker's answers to them."""
    lines, position = [], 0
    for data, code in answered:
        line = {"object": "batches", "position": position, "size": len(data), "error_code": code}
        lines.append(json.dumps(line | {"base_offset": None if code else 7}))
        position += len(data)
    shop.arrive(1, *(data for data, _ in answered), name=f"{name}.batches")
    shop.arrive(1, "\n".join([*lines, "not JSON", "{}"]).encode(), name=f"_{name}.answers.jsonl")


def table(shop: Shop, outcome: RunOutcome, name: str) -> list[dict[str, Any]]:
    key = step_key(outcome.run_id, Step.AUDIT, f"{name}.parquet")
    lake = open_lake(shop.settings())
    rows: list[dict[str, Any]] = read_table(lake, key).to_pylist() if lake.stat(key) else []
    return rows


def result(shop: Shop) -> dict[str, Any]:
    rows = rows_of_results(shop)
    (found,) = [row for row in rows if row["expectation"] == NAME]
    return found


def rows_of_results(shop: Shop) -> list[dict[str, Any]]:
    from tests.e2e.tables import own_rows

    return own_rows(shop.settings(), "expectation_results")


def shop_at(place: Path) -> Shop:
    place.mkdir(exist_ok=True)
    return Shop(place)


def test_equal_answers_meet_the_expectation(tmp_path: Path) -> None:
    shop = shop_at(tmp_path)
    first, retried = batch(0, value=FITS), batch(1, value=FITS)
    gap = batch(9, value=FITS)
    arrive(
        shop,
        [
            (first, 0),
            (retried, None),
            (retried, KafkaError.REQUEST_TIMED_OUT),
            (retried, 0),
            (retried, KafkaError.DUPLICATE_SEQUENCE_NUMBER),
            (gap, KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER),
        ],
    )
    outcome = run(shop.settings(), 1)
    assert len(rows_of(shop.settings(), "orders")) == 2
    (facts,) = table(shop, outcome, "answer_facts")
    assert (facts["answers"], facts["unanswered"], facts["differing"]) == (4, 2, 0)
    assert table(shop, outcome, "answer_differences") == []
    assert result(shop)["success"]


def test_every_difference_is_listed_with_both_sides_and_the_run_is_published(tmp_path: Path) -> None:
    shop = shop_at(tmp_path)
    first, second = batch(0, value=FITS), batch(5, value=FITS)
    arrive(shop, [(first, KafkaError.INVALID_PRODUCER_EPOCH), (second, 0), (batch(1, value=FITS), 3)])
    outcome = run(shop.settings(), 1)
    assert [
        (row["position"], row["verdict"], row["kafka_error"], row["broker_error"], row["broker_offset"])
        for row in table(shop, outcome, "answer_differences")
    ] == [
        (0, "accepted", "NONE", "INVALID_PRODUCER_EPOCH", -1),
        (len(first), "out_of_order", "OUT_OF_ORDER_SEQUENCE_NUMBER", "NONE", 7),
        (len(first) + len(second), "accepted", "NONE", "error 3", -1),
    ]
    found = result(shop)
    assert (found["success"], found["severity"]) == (False, "warning")
    assert "the broker answered INVALID_PRODUCER_EPOCH" in found["examples"][0]
    assert rows_of(shop.settings(), "orders")


def test_a_capture_without_answers_is_not_judged(tmp_path: Path) -> None:
    shop = shop_at(tmp_path)
    shop.arrive(1, batch(0, value=FITS), name="a.batches")
    arrive(shop, [(batch(1, value=FITS), 0)], name="b")
    (tmp_path / "capture" / "dt=2024-05-01" / "orders-0" / "b.batches").unlink()  # answers without an object
    outcome = run(shop.settings(), 1)
    assert table(shop, outcome, "answer_facts") == []
    assert NAME not in {row["expectation"] for row in rows_of_results(shop)}
