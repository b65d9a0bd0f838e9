"""Each rule of `resolve` as a run or two: what is published, what is held, and the rows of the tables."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.kafka.coordinator.transaction_metadata import TransactionResult
from spark_jobs.kafka.formats.legacy import LegacyHeader
from spark_jobs.kafka.formats.record_batch import RecordBatchHeader
from spark_jobs.kafka.formats.transaction_state import TWO_PHASE_COMMIT_TIMEOUT_MS
from spark_jobs.kafka.producers.producer_state import TransactionVersion
from spark_jobs.kafka.topic_partition import TopicPartition
from spark_jobs.kafka.transactions.partition_transactions import LogBatch
from spark_jobs.sample.broker.coordinator import TransactionCoordinator
from tests.kafka.txn_cluster import PARTITIONS, TV0, TV2, Cluster, Producer
from tests.pipeline.resolve.run_lake import COPY_TIMES, Resolved, RunLake, end_of_day

COMMIT, ABORT = TransactionResult.COMMIT, TransactionResult.ABORT
FIRST, SECOND, THIRD = PARTITIONS
MINUTES = 60_000
Logs = dict[TopicPartition, list[LogBatch]]


@pytest.fixture
def lake(tmp_path: Path) -> RunLake:
    return RunLake(tmp_path)


def cluster_at(run: int, *, version: TransactionVersion = TV2) -> Cluster:
    return Cluster(
        now=end_of_day(run) - 5 * MINUTES,
        coordinator=TransactionCoordinator(transaction_version=version, max_timeout_ms=2**31 - 1),
    )


def started(cluster: Cluster, name: str = "a", version: TransactionVersion = TV2) -> Producer:
    producer = Producer(name, version)
    cluster.init(producer)
    return producer


def send(cluster: Cluster, producer: Producer, *partitions: TopicPartition) -> None:
    for partition in partitions:
        cluster.produce(producer, partition)


def at_run(cluster: Cluster, run: int) -> None:
    cluster.now = end_of_day(run) - 5 * MINUTES


def _moved_up(header: RecordBatchHeader | LegacyHeader) -> RecordBatchHeader:
    assert isinstance(header, RecordBatchHeader)
    return replace(header, base_offset=header.base_offset - 1)


def pass_time(cluster: Cluster, producer: Producer, duration_ms: int) -> None:
    """Time goes by, and then the coordinator's log has a newer record, of a transaction without data."""
    cluster.now += duration_ms
    cluster.join(producer, THIRD)
    cluster.end(producer, COMMIT)


def without_markers(logs: Logs, *partitions: TopicPartition) -> Logs:
    return {p: [b for b in log if b[1] is None or p not in partitions] for p, log in logs.items()}


def resolve(lake: RunLake, cluster: Cluster, run: int = 0, logs: Logs | None = None) -> Resolved:
    lake.copy_logs(cluster.logs if logs is None else logs, cluster.entries)
    return lake.run(run)


def only(found: Resolved) -> dict[str, Any]:
    (transaction,) = found.transactions
    return transaction


@pytest.mark.parametrize("result", [COMMIT, ABORT])
def test_what_is_prepared_decides_every_listed_partition_though_a_marker_is_missing(
    lake: RunLake, result: TransactionResult
) -> None:
    cluster = cluster_at(0)
    producer = started(cluster)
    send(cluster, producer, FIRST, SECOND)
    cluster.end(producer, result, reached={FIRST})

    found = resolve(lake, cluster)

    expected = ((FIRST, 0), (SECOND, 0)) if result is COMMIT else ()
    assert found.published == expected
    row = only(found)
    assert (row["outcome"], row["state"]) == (
        "committed" if result is COMMIT else "aborted",
        "PrepareCommit" if result is COMMIT else "PrepareAbort",
    )
    assert row["evidence"] == ["coordinator", "marker missing"]
    assert row["partitions_expected"] == row["partitions_found"] == ["t-0", "t-1"]
    assert row["markers_missing"] == ["t-1"]
    assert found.partitions[SECOND]["last_stable_offset"] == 0
    assert found.partitions[SECOND]["decided_offset"] == found.partitions[SECOND]["end_offset"] == 1


@pytest.mark.parametrize("result", [COMMIT, ABORT])
def test_where_a_partition_continues_without_the_marker_of_what_is_complete_its_consumers_stop(
    lake: RunLake, result: TransactionResult
) -> None:
    cluster = cluster_at(0)
    lost, other = started(cluster), started(cluster, "b")
    send(cluster, lost, FIRST, SECOND)
    cluster.end(lost, result)
    cluster.now += 2 * MINUTES
    send(cluster, other, SECOND)
    cluster.end(other, COMMIT)
    pass_time(cluster, other, MINUTES)
    data, _, *behind = cluster.logs[SECOND]
    moved = [(_moved_up(header), marker) for header, marker in behind]

    found = resolve(lake, cluster, logs={**cluster.logs, SECOND: [data, *moved]})

    assert found.published == (((FIRST, 0),) if result is COMMIT else ())
    hanging = [row for row in found.transactions if row["outcome"] == "hanging"]
    assert [(row["producer_id"], row["partitions_found"]) for row in hanging] == [(lost.producer_id, ["t-1"])]
    assert hanging[0]["evidence"] == ["marker never written"]
    assert found.partitions[SECOND]["last_stable_offset"] == found.partitions[SECOND]["end_offset"] == 0


def test_a_marker_that_comes_the_run_after_its_decision_publishes_nothing_again(lake: RunLake) -> None:
    cluster = cluster_at(0)
    producer = started(cluster)
    send(cluster, producer, FIRST, SECOND)
    cluster.end(producer, COMMIT, reached={FIRST})
    resolve(lake, cluster)
    at_run(cluster, 1)
    cluster.fail_over()

    found = resolve(lake, cluster, 1)

    assert found.published == ()
    assert only(found)["evidence"] == ["coordinator", "marker"]
    assert only(found)["published"] is False
    assert all(own["unsettled"] == 0 for own in found.partitions.values())


@pytest.mark.parametrize("version", [TV0, TV2])
def test_a_transaction_that_commits_on_run_two_is_published_then_in_offset_order(
    lake: RunLake, version: TransactionVersion
) -> None:
    cluster = cluster_at(0)
    slow, quick = started(cluster, "slow", version), started(cluster, "quick", version)
    send(cluster, slow, FIRST)
    send(cluster, quick, FIRST, SECOND)
    cluster.end(quick, COMMIT)
    send(cluster, slow, FIRST)

    first = resolve(lake, cluster)

    assert first.published == ()
    assert {row["transactional_id"]: row["outcome"] for row in first.transactions} == {
        "slow": "ongoing",
        "quick": "committed",
    }
    assert first.partitions[FIRST]["held_batches"] == 3
    assert first.partitions[SECOND]["held_batches"] == 1

    at_run(cluster, 1)
    send(cluster, slow, SECOND)
    cluster.end(slow, COMMIT)
    second = resolve(lake, cluster, 1)

    assert second.published == ((FIRST, 0), (FIRST, 1), (FIRST, 3), (SECOND, 0), (SECOND, 2))
    assert all(row["published"] for row in second.transactions)
    assert all(own["held_batches"] == 0 for own in second.partitions.values())


def test_a_transaction_that_aborts_on_run_two_never_appears(lake: RunLake) -> None:
    cluster = cluster_at(0)
    slow, quick = started(cluster, "slow"), started(cluster, "quick")
    send(cluster, slow, FIRST)
    send(cluster, quick, FIRST)
    cluster.end(quick, COMMIT)
    resolve(lake, cluster)
    at_run(cluster, 1)
    cluster.end(slow, ABORT)

    found = resolve(lake, cluster, 1)

    assert found.published == ((FIRST, 1),)
    assert found.partitions[FIRST]["held_batches"] == 0
    at_run(cluster, 2)
    assert resolve(lake, cluster, 2).published == ()


def test_partition_by_partition_each_publishes_up_to_its_own_last_stable_offset(tmp_path: Path) -> None:
    lake = RunLake(tmp_path)
    lake.config = lake.config.replace("whole_transactions", "read_committed")
    cluster = cluster_at(0)
    slow, quick = started(cluster, "slow"), started(cluster, "quick")
    send(cluster, slow, FIRST)
    send(cluster, quick, FIRST, SECOND)
    cluster.end(quick, COMMIT)

    assert resolve(lake, cluster).published == ((SECOND, 0),)

    at_run(cluster, 1)
    cluster.end(slow, COMMIT)
    assert resolve(lake, cluster, 1).published == ((FIRST, 0), (FIRST, 1))


def test_a_marker_against_the_coordinators_word_is_a_conflict_and_holds_the_records(lake: RunLake) -> None:
    cluster = cluster_at(0)
    producer = started(cluster)
    send(cluster, producer, FIRST, SECOND)
    cluster.end(producer, COMMIT)
    other = cluster_at(0)
    send(other, started(other), FIRST, SECOND)
    other.end(Producer("a", TV2, producer_id=0, producer_epoch=0), ABORT)

    found = resolve(lake, cluster, logs={FIRST: cluster.logs[FIRST], SECOND: other.logs[SECOND]})

    assert found.published == ()
    assert only(found)["outcome"] == "conflict"
    assert only(found)["evidence"][0] == "contradiction"
    (message,) = found.messages
    assert message.startswith("the records of 1 conflict transactions are held: ")
    assert found.partitions[FIRST]["undecided"] == found.partitions[SECOND]["undecided"] == 1


def forgotten(*, waits_ms: int) -> tuple[Cluster, int]:
    """A transaction that the coordinator has no record of, and when its batch was appended.

    Another producer's marker follows it, and the coordinator's log continues for a while.
    """
    cluster = cluster_at(0)
    cluster.now -= 30 * MINUTES
    lost, known = started(cluster, "lost"), started(cluster, "known")
    send(cluster, known, FIRST)
    cluster.end(known, COMMIT)
    send(cluster, lost, FIRST)
    appended = cluster.now
    send(cluster, known, FIRST)
    cluster.end(known, COMMIT)
    pass_time(cluster, known, waits_ms)
    cluster.entries = [entry for entry in cluster.entries if entry.transactional_id == "known"]
    return cluster, appended


def test_open_without_a_coordinators_entry_for_longer_than_any_timeout_is_hanging_with_check_and_command(
    lake: RunLake,
) -> None:
    cluster, appended = forgotten(waits_ms=16 * MINUTES)

    found = resolve(lake, cluster)

    assert found.published == ((FIRST, 0),)
    row = next(row for row in found.transactions if row["outcome"] == "hanging")
    assert row["transactional_id"] is None
    assert row["evidence"] == ["no coordinator entry"]
    assert row["age_ms"] == row["coordinator_time"] - appended
    assert 16 * MINUTES < row["age_ms"] < 17 * MINUTES
    assert row["held_back"] == 3
    (advice,) = row["abort_commands"]
    assert advice.startswith(
        "check first: `kafka-transactions.sh --bootstrap-server localhost:9092 describe-producers --topic t"
    )
    assert "abort --topic t --partition 0 --start-offset 2`, which discards" in advice
    assert found.partitions[FIRST]["lag"] == 3


@pytest.mark.parametrize(
    ("waits_ms", "state_partitions", "why"),
    [
        pytest.param(14 * MINUTES, 1, "not proven", id="its timeout may not have passed"),
        pytest.param(
            16 * MINUTES, 2, "coordinator copy is older", id="a partition of the coordinator's log is missing"
        ),
    ],
)
def test_open_without_a_coordinators_entry_is_ongoing_until_it_is_proven_to_hang(
    lake: RunLake, waits_ms: int, state_partitions: int, why: str
) -> None:
    lake.config = lake.config.replace("partitions: 1", f"partitions: {state_partitions}")
    cluster, _ = forgotten(waits_ms=waits_ms)

    found = resolve(lake, cluster)

    row = next(row for row in found.transactions if row["outcome"] == "ongoing")
    assert row["evidence"] == [why, "no coordinator entry"]
    assert row["abort_commands"] == []
    assert found.counts["hanging"] == 0
    assert found.partitions[FIRST]["end_offset"] == 2


def test_the_longest_timeout_of_transactions_that_no_coordinator_knows_is_a_setting(lake: RunLake) -> None:
    lake.config = lake.config.replace("partitions: 1", "partitions: 1, transaction_max_timeout_ms: 60000")
    cluster, _ = forgotten(waits_ms=2 * MINUTES)
    assert resolve(lake, cluster).counts["hanging"] == 1


@pytest.mark.parametrize("version", [TV0, TV2])
@pytest.mark.parametrize("backdated_ms", [0, 10**10])
def test_a_live_transaction_is_never_hanging_where_the_coordinators_copy_is_older_than_the_data(
    lake: RunLake, version: TransactionVersion, backdated_ms: int
) -> None:
    """As `rsync -a` of a running broker does it: __transaction_state first, the data later."""
    cluster = cluster_at(0)
    live, other = started(cluster, "live", version), started(cluster, "other", version)
    for producer in (live, other):
        send(cluster, producer, FIRST, SECOND)
        cluster.end(producer, COMMIT)
    older = list(cluster.entries)
    cluster.now += 4000
    send(cluster, live, FIRST)
    send(cluster, other, FIRST, SECOND)
    cluster.end(other, COMMIT)
    begun = cluster.logs[FIRST][-3]
    cluster.logs[FIRST][-3] = (_backdated(begun[0], backdated_ms), begun[1])

    lake.copy_logs(cluster.logs, older)
    first = lake.run(0)

    row = next(row for row in first.transactions if not row["published"] and row["outcome"] != "committed")
    assert (row["outcome"], row["transactional_id"]) == ("ongoing", "live")
    assert row["evidence"] == ["coordinator copy is older", "not listed"]
    assert row["sentence"].startswith("ongoing: undecidable: the coordinator's copy is older than the data; ")
    assert row["abort_commands"] == []
    assert row["data_time"] - row["coordinator_time"] > 4000
    assert backdated_ms or row["age_ms"] < 1000
    assert first.counts["hanging"] == 0
    assert first.partitions[FIRST]["held_batches"] == 2
    by_records, by_transactions = first.messages
    assert by_records.startswith("the copy of __transaction_state is older than the data: its newest record")
    assert by_transactions.startswith("1 open transactions cannot be decided, because the coordinator's copy")

    at_run(cluster, 1)
    cluster.end(live, COMMIT)
    second = resolve(lake, cluster, 1)

    everything = [(FIRST, 0), (FIRST, 2), (FIRST, 4), (FIRST, 5), (SECOND, 0), (SECOND, 2), (SECOND, 4)]
    assert {(FIRST, 4), (FIRST, 5)} <= set(second.published)
    assert sorted((*first.published, *second.published)) == everything
    assert not second.messages


def _backdated(header: RecordBatchHeader | LegacyHeader, by_ms: int) -> RecordBatchHeader:
    assert isinstance(header, RecordBatchHeader)
    return replace(header, max_timestamp=header.max_timestamp - by_ms)


@pytest.mark.parametrize(
    ("data", "coordinator", "outcome"),
    [
        pytest.param("23:58:00", "23:59:00", "hanging", id="data first"),
        pytest.param("23:59:00", "23:58:00", "ongoing", id="coordinator first"),
        pytest.param("23:00:00", "23:59:00", "ongoing", id="times of another copy"),
    ],
)
def test_copy_times_prove_what_an_idle_coordinators_log_cannot(
    lake: RunLake, data: str, coordinator: str, outcome: str
) -> None:
    cluster = cluster_at(0)
    cluster.now -= 30 * MINUTES
    lost, known = started(cluster, "lost"), started(cluster, "known")
    send(cluster, known, FIRST)
    cluster.end(known, COMMIT)
    send(cluster, lost, FIRST)
    cluster.entries = [entry for entry in cluster.entries if entry.transactional_id == "known"]
    lake.copy_logs(cluster.logs, cluster.entries)
    times = COPY_TIMES.format(data=f"2024-05-01T{data}Z", coordinator=f"2024-05-01T{coordinator}Z")
    (lake.directory / "broker" / "onceover-copy.json").write_text(times)

    found = lake.run(0)

    row = next(row for row in found.transactions if row["outcome"] != "committed")
    assert row["outcome"] == outcome
    assert bool(row["abort_commands"]) == (outcome == "hanging")


def test_copy_times_that_cannot_be_read_prove_nothing_and_are_named(lake: RunLake) -> None:
    cluster, _ = forgotten(waits_ms=16 * MINUTES)
    lake.copy_logs(cluster.logs, cluster.entries)
    (lake.directory / "broker" / "onceover-copy.json").write_text('{"format": 1, "copied": [{"path": ""}]}')
    (problem, *_) = lake.run(0).messages
    assert problem == (
        "broker: onceover-copy.json: not readable as copy times, so it proves nothing: "
        "copied.0.started_at: Field required"
    )


def test_without_a_coordinators_log_markers_alone_decide_and_the_report_says_so(lake: RunLake) -> None:
    cluster = cluster_at(0)
    producer, still_open = started(cluster, "a", TV0), started(cluster, "b", TV0)
    send(cluster, producer, FIRST)
    cluster.end(producer, COMMIT)
    send(cluster, still_open, FIRST)
    cluster.entries = []

    found = resolve(lake, cluster)

    assert found.published == ((FIRST, 0),)
    assert {row["outcome"]: row["evidence"] for row in found.transactions} == {
        "committed": ["marker", "no coordinator log"],
        "ongoing": ["no coordinator log"],
    }
    assert found.messages == (
        "there is no copy of the coordinator's log (__transaction_state): markers alone decide",
    )


def test_partitions_without_data_get_markers_that_belong_to_the_same_transaction(lake: RunLake) -> None:
    cluster = cluster_at(0)
    producer = started(cluster)
    send(cluster, producer, FIRST)
    cluster.join(producer, SECOND)
    cluster.end(producer, COMMIT)

    found = resolve(lake, cluster)

    row = only(found)
    assert row["partitions_expected"] == ["t-0", "t-1"]
    assert row["partitions_found"] == ["t-0"]
    assert row["markers_missing"] == []
    assert found.partitions[SECOND]["outcomes"] is None


@pytest.mark.parametrize("version", [TV0, TV2])
def test_a_fenced_producers_transaction_is_aborted_by_a_marker_of_the_next_epoch(
    lake: RunLake, version: TransactionVersion
) -> None:
    cluster = cluster_at(0)
    producer = started(cluster, version=version)
    send(cluster, producer, FIRST)
    cluster.init(producer)
    send(cluster, producer, FIRST)
    cluster.end(producer, COMMIT)

    found = resolve(lake, cluster)

    assert found.published == ((FIRST, 2),)
    assert [row["outcome"] for row in found.transactions] == ["aborted", "committed"]


def test_markers_that_a_new_coordinator_sends_again_close_nothing(lake: RunLake) -> None:
    cluster = cluster_at(0)
    producer = started(cluster)
    send(cluster, producer, FIRST, SECOND)
    cluster.end(producer, COMMIT, reached={FIRST})
    cluster.fail_over()

    found = resolve(lake, cluster)

    assert found.published == ((FIRST, 0), (SECOND, 0))
    assert only(found)["evidence"] == ["coordinator", "marker"]
    assert only(found)["coordinator_epochs"] == [1, 2]


def test_an_exhausted_epoch_continues_under_a_new_producer_id(lake: RunLake) -> None:
    cluster = cluster_at(0)
    producer = started(cluster)
    metadata = cluster.coordinator.transactions["a"]
    cluster.coordinator.transactions["a"] = replace(metadata, producer_epoch=32766)
    producer.producer_epoch = 32766
    send(cluster, producer, FIRST)
    cluster.end(producer, COMMIT)
    send(cluster, producer, FIRST)
    cluster.end(producer, COMMIT)

    found = resolve(lake, cluster)

    assert found.published == ((FIRST, 0), (FIRST, 2))
    rows = sorted(found.transactions, key=lambda row: row["start_timestamp"])
    assert [row["transactional_id"] for row in rows] == ["a", "a"]
    assert rows[0]["producer_id"] != rows[1]["producer_id"]
    assert [row["producer_epoch"] for row in rows] == [32766, 0]


def test_what_has_timed_out_before_the_runs_day_is_taken_for_aborted_and_this_is_said(
    lake: RunLake,
) -> None:
    cluster = cluster_at(0)
    cluster.timeout_ms = MINUTES
    producer, plain = started(cluster), started(cluster, "b")
    send(cluster, producer, FIRST)
    send(cluster, plain, FIRST)
    cluster.end(plain, COMMIT)
    assert resolve(lake, cluster).published == ()
    at_run(cluster, 1)
    pass_time(cluster, plain, 0)

    found = resolve(lake, cluster, 1)

    assert found.published == ((FIRST, 1),)
    row = next(row for row in found.transactions if row["transactional_id"] == "a")
    assert (row["outcome"], row["evidence"]) == ("aborted", ["coordinator", "timeout"])
    assert row["sentence"] == (
        "aborted: the coordinator's log has it as Ongoing; "
        "its timeout of 60000 ms had passed when the coordinator's log was copied"
    )
    (message,) = found.messages
    assert message.startswith("1 transactions count as aborted: their timeout had passed when ")


def test_a_timeout_counts_only_as_far_as_the_copy_of_the_coordinators_log_reaches(lake: RunLake) -> None:
    cluster = cluster_at(0)
    cluster.timeout_ms = MINUTES
    producer, plain = started(cluster), started(cluster, "b")
    send(cluster, producer, FIRST)
    send(cluster, plain, FIRST)
    cluster.end(plain, COMMIT)
    for run in range(3):  # the same old copy every time
        found = resolve(lake, cluster, run)
        assert found.published == ()
        assert found.counts["ongoing"] == 1


def test_what_was_taken_for_timed_out_is_published_whole_when_it_commits_after_all(lake: RunLake) -> None:
    cluster = cluster_at(0)
    cluster.timeout_ms = MINUTES
    producer, other = started(cluster), started(cluster, "other")
    send(cluster, producer, FIRST, SECOND)
    assert resolve(lake, cluster, 0).published == ()
    at_run(cluster, 1)
    pass_time(cluster, other, 0)
    assert resolve(lake, cluster, 1).published == ()
    at_run(cluster, 2)
    send(cluster, producer, SECOND)
    cluster.end(producer, COMMIT)

    found = resolve(lake, cluster, 2)

    assert found.published == ((FIRST, 0), (SECOND, 0), (SECOND, 1))
    assert found.partitions[FIRST]["late"] == [0]
    assert all(own["held_batches"] == 0 for own in found.partitions.values())


def test_what_was_taken_for_timed_out_is_kept_on_both_sides_of_the_cut(lake: RunLake) -> None:
    cluster = cluster_at(0)
    cluster.timeout_ms = MINUTES
    producer, other = started(cluster), started(cluster, "other")
    send(cluster, producer, FIRST)
    assert resolve(lake, cluster, 0).published == ()
    at_run(cluster, 1)
    send(cluster, other, FIRST)
    send(cluster, producer, FIRST)
    found = resolve(lake, cluster, 1)
    assert (found.partitions[FIRST]["end_offset"], found.partitions[FIRST]["held_batches"]) == (1, 3)
    at_run(cluster, 2)
    cluster.end(producer, COMMIT)
    cluster.end(other, COMMIT)

    found = resolve(lake, cluster, 2)

    assert found.published == ((FIRST, 0), (FIRST, 1), (FIRST, 2))


def test_two_phase_commit_never_times_out(lake: RunLake) -> None:
    cluster = cluster_at(0)
    cluster.timeout_ms = TWO_PHASE_COMMIT_TIMEOUT_MS
    send(cluster, started(cluster), FIRST)
    for run in (0, 1, 30):
        found = resolve(lake, cluster, run)
    assert only(found)["outcome"] == "ongoing"
    assert only(found)["held_back"] == 1


def test_an_open_transaction_needs_no_news_of_its_partition_to_be_decided(lake: RunLake) -> None:
    cluster = cluster_at(0)
    producer = started(cluster)
    send(cluster, producer, FIRST)
    resolve(lake, cluster)
    at_run(cluster, 1)
    cluster.end(producer, COMMIT, reached=())

    found = resolve(lake, cluster, 1)

    assert found.published == ((FIRST, 0),)
    assert only(found)["evidence"] == ["coordinator", "marker missing"]


def test_a_run_without_transactions_publishes_everything(lake: RunLake) -> None:
    cluster = cluster_at(0)
    producer = started(cluster)
    send(cluster, producer, FIRST)
    plain: list[LogBatch] = [
        (replace(header, attributes=0, producer_id=-1), None)
        for header, _ in cluster.logs[FIRST]
        if isinstance(header, RecordBatchHeader)
    ]
    found = resolve(lake, cluster, logs={FIRST: plain})
    assert found.published == ((FIRST, 0),)
