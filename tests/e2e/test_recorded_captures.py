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
from spark_jobs.kafka.formats.records import read_records
from spark_jobs.kafka.topic_partition import TopicPartition
from spark_jobs.kafka.transactions.matching import NO_BOUND
from spark_jobs.progress import RunProgress
from spark_jobs.run import execute_run
from tests.e2e.tables import by_pyiceberg, own_rows
from tests.in_process import InProcess
from tests.pipeline.materialise.truth import as_truth, truth_of
from tests.pipeline.recorded_captures import DATA, CapturedBatch, appended, produced, with_markers
from tests.pipeline.runs import place_at

pytestmark = pytest.mark.usefixtures("great_expectations")

BEFORE = date(2026, 11, 10)
"""Earlier than the recordings, so that no transaction that they leave open has timed out."""
CONFIG = """
lake: lake
publish: read_committed
sources:
  - {{name: gateway, kind: capture, root: capture, dates: dt=%Y-%m-%d, markers: {markers}}}
  - {{name: coordinator, kind: broker-log, root: '{logs}', topics: {{include: [none]}}}}
kafka: {{transaction_version: {version}}}
audit: {{severities: {{most_transactions_are_decided: warning}}}}
"""
REWRITTEN = {"compacted", "trimmed"}
"""Topics whose logs no longer hold what was sent."""
STAMPED = "lat"
"""The topic whose records got the broker's own time, which no producer has sent."""
UNDECIDED = frozenset({"ambiguous", "ongoing"})


def _run(
    place: Path, recording: str, version: str, batches: Iterable[CapturedBatch], markers: str
) -> Settings:
    config = CONFIG.format(markers=markers, logs=DATA / recording / "data", version=version)
    capture = place_at(place, config)
    for number, batch in enumerate(batches):
        capture.arrive(f"dt={BEFORE}/{batch.topic_partition}/{number:06d}", batch.records)
    progress = RunProgress(Console(quiet=True))
    execute_run(capture.settings, BEFORE, until=Step.PUBLISH, spark=InProcess(), progress=progress)
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


def _alone(recording: str) -> list[CapturedBatch]:
    """What producers sent, without a marker."""
    return [each for each in with_markers(recording, produced(recording)) if each.error is not None]


def test_a_capture_of_newer_clients_alone_gives_the_broker_s_answers_and_its_records(tmp_path: Path) -> None:
    batches = _alone("oracle_E")
    settings = _run(tmp_path, "oracle_E", "TV2", batches, "false")
    judged = _judged(settings)
    assert [judged[number]["kafka_error"] for number in range(len(batches))] == [
        each.error.name for each in batches if each.error is not None
    ]
    assert _in_log_order(by_pyiceberg(settings)) == _in_log_order(truth_of("oracle_E"))


def test_a_capture_of_older_clients_alone_whose_clocks_are_wrong_is_held_as_a_whole(tmp_path: Path) -> None:
    """The clients' clocks were ten minutes slow, so that no time tells one transaction from the next.

    One batch that came again after a time-out is a duplicate here, since only the marker would fence it.
    """
    batches = _alone("oracle_D")
    settings = _run(tmp_path, "oracle_D", "TV1", batches, "false")
    judged, truth = _judged(settings), _contents(truth_of("oracle_D"))
    differing = [
        (each.error.name, judged[number]["kafka_error"])
        for number, each in enumerate(batches)
        if each.error is not None and each.error.name != judged[number]["kafka_error"]
    ]
    assert differing == [("INVALID_PRODUCER_EPOCH", "NONE")]
    assert by_pyiceberg(settings) == []
    assert truth <= _held(batches, judged)
    assert _listed(settings) == {"ambiguous"}


def test_a_capture_beside_a_compacted_coordinator_log_has_what_that_log_lost(tmp_path: Path) -> None:
    """Compaction left the last transactions only: some of the others committed, but it is unknown which."""
    batches = [each for each in appended("workload_clean") if each.topic_partition.topic not in REWRITTEN]
    settings = _run(tmp_path, "workload_clean", "TV2", batches, "false")
    found = _contents(by_pyiceberg(settings))
    truth = _contents(each for each in truth_of("workload_clean") if each["topic"] not in REWRITTEN)
    judged = _judged(settings)
    assert {row["verdict"] for row in judged.values()} == {"accepted"}
    assert found - truth == Counter()
    assert truth - found <= _held(batches, judged)
    assert found.total() > 0
    assert "ambiguous" in _listed(settings)


def _judged(settings: Settings) -> dict[int, dict[str, Any]]:
    """The verdict on each captured batch by its number; markers are in no object."""
    rows = (row for row in own_rows(settings, "batches") if row["source"] == "gateway" and row["path"])
    return {int(row["path"].rpartition("/")[2]): row for row in rows}


def _in_log_order(records: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Offsets count markers, too, and the markers are in another source."""
    return [{**_sent(record), "offset": None} for record in records]


def _held(batches: Iterable[CapturedBatch], judged: dict[int, dict[str, Any]]) -> Counter[str]:
    """The records of undecided transactions, and those of others that a consumer gets only after them."""
    unstable: dict[TopicPartition, int] = {}
    for row in judged.values():
        if row["outcome"] in UNDECIDED:
            place = TopicPartition(row["topic"], row["partition"])
            unstable[place] = min(unstable.get(place, row["offset"]), row["offset"])
    return _contents(
        record
        for number, batch in enumerate(batches)
        if judged[number]["verdict"] == "accepted"
        and judged[number]["outcome"] in {*UNDECIDED, "committed", None}
        and judged[number]["offset"] >= unstable.get(batch.topic_partition, NO_BOUND)
        for record in _records(batch)
    )


def _records(batch: CapturedBatch) -> Iterator[dict[str, Any]]:
    topic, partition = batch.topic_partition
    for record in read_records(batch.records):
        headers = [{"key": each.key, "value": each.value} for each in record.headers]
        plain = {**asdict(record), "partition": partition, "headers": headers}
        yield as_truth(topic, {**plain, "timestamp_type": record.timestamp_type.value})


def _listed(settings: Settings) -> set[str]:
    """The outcomes of transactions whose records wait for one."""
    undecided = {"ambiguous", "hanging", "conflict"}
    return {row["outcome"] for row in own_rows(settings, "transactions")} & undecided
