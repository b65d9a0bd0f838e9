"""What is usual: the median of the runs that knew the topic."""

import pytest

from expectations.suites import compare
from tests.expectations.runs import volumes


def test_a_topic_is_held_against_the_median_of_its_runs() -> None:
    history = [volumes(records=records) for records in (99, 99, 9, 10_000, 99)]
    (row,) = compare(volumes(records=999), history, least=3).to_pylist()
    assert row["usual_records"] == 99
    assert row["volume_factor"] == pytest.approx(10)


def test_little_is_as_strange_as_much() -> None:
    history = [volumes(records=999)] * 3
    (row,) = compare(volumes(records=99), history, least=3).to_pylist()
    assert row["volume_factor"] == pytest.approx(10)


def test_a_share_counts_only_above_the_usual() -> None:
    history = [volumes(batches=100, corrupt=10)] * 3
    (row,) = compare(volumes(batches=100, corrupt=30), history, least=3).to_pylist()
    assert row["corrupt_above_usual"] == pytest.approx(0.2)
    (row,) = compare(volumes(batches=100, corrupt=0), history, least=3).to_pylist()
    assert row["corrupt_above_usual"] < 0


def test_overlaps_of_copies_count_neither_as_duplicates_nor_as_batches() -> None:
    history = [volumes(batches=100, duplicate=10)] * 3
    (row,) = compare(volumes(batches=50_100, duplicate=10, overlap=50_000), history, least=3).to_pylist()
    assert row["duplicate_above_usual"] == pytest.approx(0)


def test_runs_of_versions_without_a_column_for_overlaps_are_compared() -> None:
    history = [volumes(batches=100, duplicate=10).drop_columns(["overlap"])] * 3
    (row,) = compare(volumes(batches=100, duplicate=30), history, least=3).to_pylist()
    assert row["duplicate_above_usual"] == pytest.approx(0.2)


def test_a_topic_that_stays_away_is_there_with_nothing() -> None:
    (row,) = compare(volumes().slice(0, 0), [volumes(records=99)] * 3, least=3).to_pylist()
    assert (row["topic"], row["records"], row["volume_factor"]) == ("orders", 0, 100)


def test_a_new_topic_is_not_compared_before_it_has_a_history() -> None:
    history = [volumes().slice(0, 0)] * 20 + [volumes()] * 2
    (row,) = compare(volumes(records=0), history, least=3).to_pylist()
    assert row["volume_factor"] is None
