"""From what producers sent to tables: captured requests become the records that the broker's consumer got."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from spark_jobs.config.settings import Settings
from spark_jobs.flow import Step
from spark_jobs.protocol.records import read_records
from spark_jobs.reporting.narrator import Narrator
from spark_jobs.run import run_night
from tests.e2e.tables import by_pyiceberg, own_rows
from tests.in_process import InProcess
from tests.materialising.truth import as_truth, truth_of
from tests.steps.nights import place_at
from tests.steps.recorded_captures import DATA, CapturedBatch, produced, with_markers

pytestmark = pytest.mark.usefixtures("great_expectations")

BEFORE = date(2026, 11, 10)
"""Lies before the recordings, so that no transaction that they leave open has timed out."""
CONFIG = """
lake: lake
publish: read_committed
sources:
  - {{name: gateway, kind: capture, root: capture, dates: dt=%Y-%m-%d, markers: {markers}}}
  - {{name: coordinator, kind: broker-log, root: '{logs}', topics: {{include: [none]}}}}
kafka: {{transaction_version: {version}}}
"""
STAMPED = "lat"
"""The topic whose records got the broker's own time, which no producer has sent."""


def _run(
    place: Path, recording: str, version: str, batches: Iterable[CapturedBatch], markers: str
) -> Settings:
    config = CONFIG.format(markers=markers, logs=DATA / recording / "data", version=version)
    capture = place_at(place, config)
    for number, batch in enumerate(batches):
        capture.arrive(f"dt={BEFORE}/{batch.topic_partition}/{number:06d}", batch.records)
    narrator = Narrator(Console(quiet=True))
    run_night(capture.settings, BEFORE, until=Step.PUBLISH, spark=InProcess(), narrator=narrator)
    return capture.settings


def _sent(record: dict[str, Any]) -> dict[str, Any]:
    """What of a record a producer decides."""
    given_by_broker = {"timestamp", "timestamp_type"} if record["topic"] == STAMPED else set()
    return {name: value for name, value in record.items() if name not in given_by_broker}


def _contents(records: Iterable[dict[str, Any]]) -> Counter[str]:
    return Counter(str({**_sent(record), "offset": None}) for record in records)


@pytest.mark.parametrize(("recording", "version"), [("oracle_D", "TV1"), ("oracle_E", "TV2")])
def test_a_capture_with_its_markers_gives_the_records_that_the_consumer_got(
    recording: str, version: str, tmp_path: Path
) -> None:
    batches = with_markers(recording, produced(recording))
    settings = _run(tmp_path, recording, version, batches, "true")
    assert [_sent(each) for each in by_pyiceberg(settings)] == [_sent(each) for each in truth_of(recording)]


def test_a_capture_of_producers_alone_publishes_nothing_else_and_loses_nothing(tmp_path: Path) -> None:
    """Nobody captured where a marker stood: what comes in behind the one that we put there is refused.

    So some committed records are missing, but never silently: they are in quarantine.
    """
    batches = [each for each in with_markers("oracle_E", produced("oracle_E")) if each.error is not None]
    settings = _run(tmp_path, "oracle_E", "TV2", batches, "false")
    found, truth = _contents(by_pyiceberg(settings)), _contents(truth_of("oracle_E"))
    assert found - truth == Counter()
    assert found.total() > 0.95 * truth.total()
    assert truth - found <= _contents(_quarantined(settings))


def _quarantined(settings: Settings) -> Iterator[dict[str, Any]]:
    for row in own_rows(settings, "quarantine"):
        if row["verdict"] in {"fenced", "accepted"}:
            for record in read_records(row["bytes"]):
                headers = [{"key": each.key, "value": each.value} for each in record.headers]
                plain = {**asdict(record), "partition": row["partition"], "headers": headers}
                yield as_truth(row["topic"], {**plain, "timestamp_type": record.timestamp_type.value})
