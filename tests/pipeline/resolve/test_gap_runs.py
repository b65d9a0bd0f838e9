"""Runs past missing markers: what they may have ended is set aside, the rest continues."""

from pathlib import Path

import pytest

from spark_jobs.kafka.topic_partition import TopicPartition
from tests.kafka.txn_cluster import TV0, TV2, Cluster, Producer
from tests.pipeline.resolve.run_lake import BROKER_LOG, SEGMENT, Resolved, RunLake
from tests.pipeline.resolve.test_resolve_cases import (
    ABORT,
    COMMIT,
    FIRST,
    Logs,
    at_run,
    cluster_at,
    resolve,
    send,
    started,
)

PAST = "topics: {t: {gaps: publish_past}}\n"
COMPACTED = PAST.replace("}}", ", cleanup_policy: compact}}")


@pytest.fixture
def lake(tmp_path: Path) -> RunLake:
    return RunLake(tmp_path, BROKER_LOG + PAST)


def without_offset(cluster: Cluster, offset: int, partition: TopicPartition = FIRST) -> Logs:
    kept = [batch for batch in cluster.logs[partition] if batch[0].last_offset != offset]
    return {**cluster.logs, partition: kept}


def ended_twice(cluster: Cluster, *, commits: tuple[bool, bool]) -> Producer:
    """Two transactions of an older client: data at 0, its marker at 1, data at 2, its marker at 3."""
    producer = started(cluster, version=TV0)
    for commit in commits:
        send(cluster, producer, FIRST)
        cluster.now += 60_000
        cluster.end(producer, COMMIT if commit else ABORT)
        cluster.now += 60_000
    return producer


def outcome_at(found: Resolved, offset: int) -> str:
    return found.outcomes[FIRST, offset]


@pytest.mark.parametrize("commits", [(False, True), (True, False)])
def test_a_lost_marker_leaves_its_records_and_the_next_ones_aside_and_nothing_else(
    lake: RunLake, commits: tuple[bool, bool]
) -> None:
    cluster = cluster_at(0)
    ended_twice(cluster, commits=commits)
    other = started(cluster, "other", TV0)
    send(cluster, other, FIRST)
    cluster.end(other, COMMIT)

    found = resolve(lake, cluster, logs=without_offset(cluster, 1))

    assert found.published == ((FIRST, 4),)
    assert outcome_at(found, 0) == "ambiguous"
    (unclear,) = [row for row in found.transactions if row["outcome"] == "ambiguous"]
    assert unclear["evidence"] == ["gap"]
    assert unclear["sentence"].endswith("(missing: 1 to 1 of t-0)")
    assert unclear["held_back"] == 0
    own = found.partitions[FIRST]
    assert own["decided_offset"] == own["end_offset"] == own["log_end_offset"] == 6
    assert (own["undecided"], own["held_batches"]) == (1, 2)


def test_what_is_set_aside_stays_so_run_after_run(lake: RunLake) -> None:
    cluster = cluster_at(0)
    ended_twice(cluster, commits=(False, True))
    logs = without_offset(cluster, 1)
    resolve(lake, cluster, logs=logs)
    for run in range(1, 10):
        found = resolve(lake, cluster, run, logs=logs)
        assert found.published == ()
        assert found.partitions[FIRST]["held_batches"] == 2
    assert outcome_at(found, 0) == "ambiguous"


def test_a_coordinator_log_that_comes_a_run_later_decides_what_was_set_aside(lake: RunLake) -> None:
    cluster = cluster_at(0)
    producer = started(cluster, version=TV0)
    send(cluster, producer, FIRST, FIRST, FIRST)
    cluster.end(producer, COMMIT)
    logs, entries = without_offset(cluster, 1), cluster.entries
    lake.copy_logs(logs)

    assert lake.run(0).published == ()

    lake.copy_logs(logs, entries)
    found = lake.run(1)
    assert found.published == ((FIRST, 0), (FIRST, 2))
    assert found.partitions[FIRST]["held_batches"] == 0


def test_what_was_open_at_a_gap_is_not_ended_by_the_marker_of_a_later_run(lake: RunLake) -> None:
    cluster = cluster_at(0)
    producer, other = started(cluster, version=TV0), started(cluster, "other", TV0)
    send(cluster, producer, FIRST)
    cluster.now += 60_000
    cluster.end(producer, ABORT)
    cluster.now += 60_000
    send(cluster, producer, FIRST)
    send(cluster, other, FIRST)
    lake.copy_logs(without_offset(cluster, 1))
    lake.run(0)
    at_run(cluster, 1)
    cluster.end(producer, COMMIT)
    cluster.end(other, COMMIT)
    lake.copy_logs(without_offset(cluster, 1))

    found = lake.run(1)

    assert found.published == ((FIRST, 3),)
    assert outcome_at(found, 0) == "ambiguous"


def test_a_tv2_transaction_is_decided_across_a_gap(lake: RunLake) -> None:
    cluster = cluster_at(0, version=TV2)
    producer = started(cluster)
    send(cluster, producer, FIRST, FIRST, FIRST)
    cluster.end(producer, COMMIT)

    found = resolve(lake, cluster, logs=without_offset(cluster, 1))

    assert found.published == ((FIRST, 0), (FIRST, 2))


def test_the_holes_of_a_compacted_topic_are_no_gaps(lake: RunLake) -> None:
    lake.config = BROKER_LOG + COMPACTED
    cluster = cluster_at(0)
    ended_twice(cluster, commits=(False, True))
    lake.copy_logs(without_offset(cluster, 1))

    assert outcome_at(lake.run(0), 0) == "committed"


def test_damage_in_a_hole_of_a_compacted_topic_may_be_a_marker(lake: RunLake) -> None:
    lake.config = BROKER_LOG + COMPACTED
    cluster = cluster_at(0)
    ended_twice(cluster, commits=(False, True))
    lake.copy_logs(cluster.logs)
    segment = lake.directory / "broker" / str(FIRST) / SEGMENT
    data = bytearray(segment.read_bytes())
    length = 12 + int.from_bytes(data[8:12])
    data[length + 30] ^= 1
    segment.write_bytes(data)

    found = lake.run(0)

    assert found.published == ()
    assert outcome_at(found, 0) == "ambiguous"
