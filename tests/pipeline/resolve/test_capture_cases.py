"""Captures without markers, case by case: where a marker goes, what stays unclear, what the log holds."""

from pathlib import Path

import pytest

from spark_jobs.flow import Step
from spark_jobs.kafka.coordinator.transaction_metadata import TransactionResult
from spark_jobs.kafka.formats.indexes import read_txn_index
from spark_jobs.kafka.producers.producer_state import TransactionVersion
from spark_jobs.kafka.topic_partition import TopicPartition
from spark_jobs.lake.layout import step_key
from spark_jobs.lake.parquet_file import read_table
from spark_jobs.sample.broker.log_loader import load
from spark_jobs.sample.broker.replica_log import PartitionConfig
from spark_jobs.tables.admit import MARKER_OBJECT
from tests.kafka.txn_cluster import PARTITIONS, TV0, TV2, Cluster
from tests.pipeline.admitted import AdmittedRun
from tests.pipeline.resolve.capture_lake import CaptureLake, capture_lake
from tests.pipeline.resolve.run_lake import Batch, Resolved
from tests.pipeline.resolve.test_resolve_cases import at_run, cluster_at, send, started
from tests.pipeline.runs import Place
from tests.recordings.compare_truth import consume

COMMIT, ABORT = TransactionResult.COMMIT, TransactionResult.ABORT
FIRST, SECOND, _ = PARTITIONS


@pytest.fixture
def lake(tmp_path: Path) -> CaptureLake:
    return capture_lake(tmp_path, skew_ms=1000)


def run(lake: CaptureLake, cluster: Cluster, number: int = 0) -> tuple[Resolved, list[Batch]]:
    return lake.run(number, cluster.logs, cluster.entries)


def log_files(lake: CaptureLake, found: Resolved, partition: TopicPartition) -> dict[str, bytes]:
    """The accepted log of the run."""
    place = Place(lake.runs.directory, lake.runs.settings)
    return AdmittedRun(place, found.run_id).log(partition)


@pytest.mark.parametrize("version", [TV0, TV2])
def test_the_accepted_log_holds_markers_that_a_consumer_understands(
    lake: CaptureLake, version: TransactionVersion
) -> None:
    cluster = cluster_at(0)
    producer, other = started(cluster, "a", version), started(cluster, "b", version)
    for result in (COMMIT, ABORT, COMMIT):
        send(cluster, producer, FIRST, SECOND)
        send(cluster, other, FIRST)
        cluster.end(producer, result)
        cluster.now += 10_000
    cluster.end(other, ABORT)

    found, published = run(lake, cluster)

    files = log_files(lake, found, FIRST)
    log = load(files, clean=False, now=0, config=PartitionConfig(topic_partition=FIRST))
    log.update_high_watermark(log.log_end_offset)
    consumed = [record.value for record in consume(log, read_committed=True)]
    assert consumed == [str(offset).encode() for partition, offset in published if partition == FIRST]
    assert len(consumed) == 2
    (index,) = (data for name, data in files.items() if name.endswith(".txnindex"))
    assert [entry.producer_id for entry in read_txn_index(index)] == [0, 1000]
    assert log.last_stable_offset == found.partitions[FIRST]["last_stable_offset"] == log.log_end_offset


def test_a_transaction_that_is_decided_on_run_two_gets_its_marker_with_the_next_batches(
    lake: CaptureLake,
) -> None:
    cluster = cluster_at(0)
    producer = started(cluster)
    send(cluster, producer, FIRST, SECOND)
    assert run(lake, cluster)[1] == []
    at_run(cluster, 1)
    cluster.end(producer, COMMIT)
    send(cluster, producer, FIRST)

    found, published = run(lake, cluster, 1)

    assert published == [(FIRST, 0), (SECOND, 0)]
    own = found.partitions[FIRST]["batches"]
    rows = read_table(lake.runs.lake, step_key(found.run_id, Step.ADMIT, own)).to_pylist()
    assert [(row["object_order"] == MARKER_OBJECT, row["offset"]) for row in rows] == [(True, 1), (False, 2)]
    assert found.partitions[SECOND]["batches"] is None
    assert found.partitions[SECOND]["last_stable_offset"] == 0


def test_older_clients_transactions_within_the_clock_skew_are_ambiguous_and_held(lake: CaptureLake) -> None:
    cluster = cluster_at(0)
    producer = started(cluster, version=TV0)
    for result in (COMMIT, ABORT):
        send(cluster, producer, FIRST)
        cluster.end(producer, result)
        cluster.now += 10

    found, published = run(lake, cluster)

    assert published == []
    (row,) = (row for row in found.transactions if row["outcome"] == "ambiguous")
    assert row["evidence"] == ["several fit"]
    assert row["transactional_id"] == "a"
    assert found.partitions[FIRST]["held_batches"] == 2
    advice, count = found.messages
    assert advice == (
        "the outcomes of 1 transactions cannot be known from captures without markers (t): producers send no "
        "markers, and clients before transaction.version 2 use one epoch for many transactions; their "
        "records are held. Add one of: the markers (capture what coordinators write, too, and set markers: "
        "true); a broker's log of these topics (a source of kind broker-log instead of the capture)"
    )
    assert count == "the records of 1 ambiguous transactions are held: the logs do not show how they ended"


def test_a_capture_of_transactions_alone_says_on_its_first_run_what_to_add(lake: CaptureLake) -> None:
    cluster = cluster_at(0)
    producer = started(cluster, version=TV0)
    for _ in range(3):
        send(cluster, producer, FIRST)
        cluster.end(producer, COMMIT)
    Path(lake.runs.settings.source("coordinator").root).mkdir()

    found, published = lake.run(0, cluster.logs, [])

    assert published == []
    _, advice = found.messages
    assert advice.startswith(
        "the outcomes of 1 transactions cannot be known from captures without markers (t)"
    )
    remedies = advice.partition("Add one of: ")[2].split("; ")
    assert [remedy.partition(" (")[0] for remedy in remedies] == [
        "the coordinator's log",
        "the markers",
        "a broker's log of these topics",
    ]


def test_a_capture_that_is_newer_than_the_coordinators_copy_waits_for_the_next_one(lake: CaptureLake) -> None:
    cluster = cluster_at(0)
    producer = started(cluster)
    send(cluster, producer, FIRST)
    cluster.end(producer, COMMIT)
    older = list(cluster.entries)
    cluster.now += 10_000
    send(cluster, producer, FIRST)
    cluster.end(producer, COMMIT)

    found, published = lake.run(0, cluster.logs, older)

    assert published == [(FIRST, 0)]
    (row,) = (row for row in found.transactions if row["outcome"] != "committed")
    assert (row["outcome"], row["evidence"]) == ("ongoing", ["coordinator copy is older", "not listed"])
    assert run(lake, cluster, 1)[1] == [(FIRST, 2)]


def test_what_follows_something_ambiguous_waits_with_it_run_after_run(lake: CaptureLake) -> None:
    cluster = cluster_at(0)
    producer = started(cluster, version=TV0)
    for result in (COMMIT, ABORT):
        send(cluster, producer, FIRST)
        cluster.end(producer, result)
        cluster.now += 10
    run(lake, cluster)
    at_run(cluster, 1)
    send(cluster, producer, FIRST)
    cluster.end(producer, COMMIT)

    found, published = run(lake, cluster, 1)

    assert published == []
    assert set(found.outcomes.values()) == {"ambiguous"}


def test_a_retry_of_an_earlier_transactions_batch_says_nothing(lake: CaptureLake) -> None:
    cluster = cluster_at(0)
    producer = started(cluster, version=TV0)
    send(cluster, producer, FIRST)
    cluster.end(producer, COMMIT)
    cluster.now += 60_000
    send(cluster, producer, FIRST)
    lake.capture(0, FIRST, cluster.logs[FIRST])
    file = Path(lake.runs.settings.source("gateway").root, f"{FIRST}/0000")
    first = len(file.read_bytes()) // 2
    file.write_bytes(file.read_bytes() + file.read_bytes()[:first])
    cluster.end(producer, ABORT)

    found, published = run(lake, cluster)

    assert published == [(FIRST, 0)]
    assert sorted(found.outcomes.values()) == ["aborted", "committed"]


def test_without_a_coordinators_log_captured_transactions_wait(lake: CaptureLake) -> None:
    cluster = cluster_at(0)
    producer = started(cluster)
    send(cluster, producer, FIRST)
    cluster.end(producer, COMMIT)
    cluster.entries = []
    Path(lake.runs.settings.sources[0].root).mkdir()

    found, published = run(lake, cluster)

    assert published == []
    assert found.outcomes == {(FIRST, 0): "ongoing"}
    assert "no copy of the coordinator's log" in found.messages[0]


def test_a_late_object_finds_its_transaction_though_it_was_settled_elsewhere(lake: CaptureLake) -> None:
    cluster = cluster_at(0)
    producer = started(cluster)
    send(cluster, producer, FIRST, SECOND)
    cluster.end(producer, COMMIT)
    late = cluster.logs[SECOND]
    cluster.logs[SECOND] = []
    assert run(lake, cluster)[1] == [(FIRST, 0)]
    cluster.logs[SECOND] = late

    assert run(lake, cluster, 1)[1] == [(SECOND, 0)]
