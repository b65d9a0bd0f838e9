"""Recordings through the steps: the broker's own answers, its log byte for byte, its producers."""

from collections import defaultdict
from collections.abc import Iterable
from datetime import date
from pathlib import Path

import pytest

from spark_jobs.execution.spark import Spark
from spark_jobs.flow import Step
from spark_jobs.kafka.errors import KafkaError
from spark_jobs.kafka.formats import snapshot
from spark_jobs.kafka.producers.verdict import Verdict
from spark_jobs.kafka.topic_partition import TopicPartition
from spark_jobs.kernels.producers import ProducerTable, read_snapshot, write_snapshot
from spark_jobs.lake import index_rows
from spark_jobs.sample.broker.log_loader import load
from spark_jobs.tables.index import INDEX_FILES
from tests.pipeline.admitted import AdmittedRun, admit
from tests.pipeline.recorded_captures import (
    DATA,
    CapturedBatch,
    log_of,
    newest_snapshot,
    produced,
    with_markers,
)
from tests.pipeline.runs import Place, place_at

DAY = date(2026, 11, 16)
CAPTURE = """
lake: lake
sources:
  - {name: gateway, kind: capture, root: capture, dates: dt=%Y-%m-%d, markers: true}
topics:
  lat: {message_timestamp_type: LogAppendTime}
"""
RECORDED_LOGS = sorted(path.parent.name for path in DATA.glob("*/data"))


def arrive(place: Place, batches: Iterable[CapturedBatch], day: date = DAY) -> None:
    """Each batch as an object of its own, named by its place."""
    for number, batch in enumerate(batches):
        place.arrive(f"dt={day}/{batch.topic_partition}/{number:06d}", batch.records)


def by_partition(batches: Iterable[CapturedBatch]) -> dict[TopicPartition, list[CapturedBatch]]:
    found: dict[TopicPartition, list[CapturedBatch]] = defaultdict(list)
    for batch in batches:
        found[batch.topic_partition].append(batch)
    return found


def differences(run: AdmittedRun, batches: Iterable[CapturedBatch]) -> list[str]:
    """Answers that are not the broker's."""
    found = []
    for partition, sent in by_partition(batches).items():
        for batch, row in zip(sent, run.batches(partition), strict=True):
            expected = (batch.error or KafkaError.NONE).name, batch.offset
            answer = row["kafka_error"], -1 if row["offset"] is None else row["offset"]
            if answer != expected:
                found.append(f"{partition} {row['object_order']}: {expected} {answer} {row['reason']}")
    return found


def test_producers_get_the_brokers_answers_through_spark(tmp_path: Path, spark: Spark) -> None:
    place, batches = place_at(tmp_path, CAPTURE), produced("oracle_A")
    arrive(place, batches)

    run = admit(place, DAY, spark=spark)

    assert differences(run, batches) == []
    given = {verdict for partition in run.partitions() for verdict in run.verdicts(partition)}
    assert given >= {"accepted", "duplicate", "stale_duplicate", "out_of_order", "fenced", "corrupt"}


@pytest.mark.parametrize(
    ("recording", "version"), [("oracle_A", "TV0"), ("oracle_D", "TV1"), ("oracle_E", "TV2")]
)
def test_a_capture_becomes_the_log_and_the_producers_of_the_broker(
    tmp_path: Path, recording: str, version: str
) -> None:
    place = place_at(tmp_path, f"{CAPTURE}kafka: {{transaction_version: {version}}}\n")
    batches = list(with_markers(recording, produced(recording)))
    arrive(place, batches)

    run = admit(place, DAY)

    assert differences(run, batches) == []
    for partition in by_partition(batches):
        if partition.topic == "lat":
            continue  # the broker has stamped its own clock's time on everything
        log = run.log(partition)
        segments = [log[name] for name in sorted(log) if name.endswith(".log")]
        assert b"".join(segments) == log_of(recording, partition)
        assert snapshot_of(run, partition) == in_order(newest_snapshot(recording, partition))


def in_order(data: bytes) -> bytes:
    """A broker writes producers in any order."""
    return write_snapshot(ProducerTable(read_snapshot(data)).canonical())


def snapshot_of(run: AdmittedRun, partition: TopicPartition) -> bytes:
    return write_snapshot(run.state(partition).producers)


@pytest.mark.parametrize("recording", RECORDED_LOGS)
def test_a_brokers_log_gives_the_producers_of_its_newest_snapshot(tmp_path: Path, recording: str) -> None:
    logs = DATA / recording / "data"
    place = place_at(tmp_path, f"lake: lake\nsources:\n  - {{name: kafka, kind: broker-log, root: {logs}}}\n")

    run = admit(place, DAY)

    for partition, row in run.partitions().items():
        assert set(run.verdicts(partition)) <= {Verdict.ACCEPTED, Verdict.CORRUPT}
        assert snapshot_of(run, partition) == snapshot_at_end(logs / str(partition), row["end_offset"])


@pytest.mark.parametrize("recording", ["oracle_A", "oracle_D"])
def test_verdicts_do_not_depend_on_how_the_index_is_cut(
    tmp_path: Path, recording: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = DATA / recording / "data"
    config = f"lake: lake\nsources:\n  - {{name: kafka, kind: broker-log, root: {logs}}}\n"
    together = admit(place_at(tmp_path / "together", config), DAY)
    monkeypatch.setattr(index_rows, "FEWEST_ROWS", 1)
    apart = admit(place_at(tmp_path / "apart", f"{config}limits: {{range_bytes: 4096}}\n"), DAY)

    assert index_files(apart) > index_files(together)
    assert apart.states() == together.states()
    assert apart.transactions() == together.transactions()
    for partition in together.partitions():
        assert apart.batches(partition) == together.batches(partition)


def index_files(run: AdmittedRun) -> int:
    return run.table(Step.INDEX, INDEX_FILES.file).num_rows


def snapshot_at_end(directory: Path, end_offset: int) -> bytes:
    """The broker's own, or, after a kill, the one that it would write once it has recovered the log."""
    newest = max(directory.glob("*.snapshot"), default=None)
    if newest is not None and int(newest.stem) == end_offset:
        return in_order(newest.read_bytes())
    files = {path.name: path.read_bytes() for path in directory.iterdir()}
    producers = load(files, clean=False, now=0).manager.producers
    return in_order(snapshot.write_snapshot(producers.values()))
