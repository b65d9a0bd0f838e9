"""The coordinator's log as it is found: compacted, torn, in several copies, of old versions, over runs."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from spark_jobs.config.sources import TRANSACTION_STATE
from spark_jobs.kafka.coordinator.history import CoordinatorRecord
from spark_jobs.kafka.coordinator.transaction_metadata import TransactionResult
from spark_jobs.kafka.formats.batch_builder import build_batch
from spark_jobs.kafka.formats.records import Record
from spark_jobs.kafka.topic_partition import TopicPartition
from spark_jobs.lake.folds import read_folds
from spark_jobs.pipeline.coordinator_logs.folding import get_fold
from spark_jobs.pipeline.coordinator_logs.timelines import CoordinatorFold, read_fold, write_fold
from spark_jobs.tables.states import FoldKind
from tests.kafka.txn_cluster import PARTITIONS, TV0, Cluster, Producer
from tests.pipeline.resolve.run_lake import SEGMENT, Resolved, RunLake, end_of_day, entry_bytes
from tests.pipeline.resolve.test_resolve_cases import at_run, cluster_at, resolve, send, started

COMMIT = TransactionResult.COMMIT
FIRST, SECOND, _ = PARTITIONS
NAME = TopicPartition(TRANSACTION_STATE, 0)


@pytest.fixture
def lake(tmp_path: Path) -> RunLake:
    return RunLake(tmp_path)


def fold_of(lake: RunLake, found: Resolved) -> CoordinatorFold:
    return get_fold(lake.lake, read_folds(lake.lake, found.run_id)[FoldKind.TIMELINES, NAME])


def write_log(lake: RunLake, entries: Iterable[bytes], directory: str = "") -> None:
    """The coordinator's log is these bytes now."""
    file = Path(lake.settings.sources[0].root, directory, str(NAME), SEGMENT)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(b"".join(entries))


def prepared(cluster: Cluster) -> Producer:
    """A transaction that the coordinator has decided and no marker has reached."""
    producer = started(cluster)
    send(cluster, producer, FIRST, SECOND)
    cluster.end(producer, COMMIT, reached=())
    return producer


def v0(entries: Iterable[CoordinatorRecord]) -> list[bytes]:
    return [entry_bytes(entry, version=0) for entry in entries]


def v1(entries: Iterable[CoordinatorRecord]) -> list[bytes]:
    return [entry_bytes(entry) for entry in entries]


def torn(entries: Iterable[CoordinatorRecord]) -> list[bytes]:
    *whole, last = v1(entries)
    return [*whole, last, last[: len(last) // 2]]


def with_foreign_records(entries: Iterable[CoordinatorRecord]) -> list[bytes]:
    """Unknown key types, keys that are none, empty batches: all passed over."""
    foreign = [
        build_batch(records=[Record(key=key, value=b"?")], base_timestamp=0, base_offset=100 + place)
        for place, key in enumerate((b"\x00\x07later", b"\x00\x00\x00\x40too short", None))
    ]
    emptied = build_batch(records=[], base_timestamp=0, base_offset=103, last_offset_delta=2)
    return [*v1(entries), *foreign, emptied]


def compacted(entries: Iterable[CoordinatorRecord]) -> list[bytes]:
    last = {entry.transactional_id: entry for entry in entries}
    return v1(last.values())


@pytest.mark.parametrize("written", [v0, v1, torn, with_foreign_records, compacted])
def test_a_decision_is_read_however_the_log_was_written(
    lake: RunLake, written: Callable[[list[CoordinatorRecord]], list[bytes]]
) -> None:
    cluster = cluster_at(0)
    prepared(cluster)
    lake.copy_logs(cluster.logs)
    write_log(lake, written(cluster.entries))

    found = lake.run(0)

    assert found.published == ((FIRST, 0), (SECOND, 0))
    assert fold_of(lake, found).end_offset >= len(cluster.entries)


def test_copies_of_several_replicas_are_one_log_and_what_a_leader_lost_does_not_count(
    lake: RunLake,
) -> None:
    cluster = cluster_at(0)
    producer = started(cluster)
    send(cluster, producer, FIRST)
    known = list(cluster.entries)
    cluster.end(producer, TransactionResult.ABORT, reached=())
    lost = cluster.entries[len(known) :]
    other = cluster_at(0)
    prepared(other)
    kept = [replace(entry, coordinator_epoch=7) for entry in other.entries[len(known) :]]
    lake.copy_logs({FIRST: cluster.logs[FIRST]})
    write_log(lake, v1([*known, *lost]), "replica-1")
    write_log(lake, v1([*known, *kept]), "replica-2")

    found = lake.run(0)

    assert [row["state"] for row in found.transactions] == ["PrepareCommit"]
    assert found.published == ((FIRST, 0),)


def test_a_run_continues_where_the_run_before_has_stopped(lake: RunLake) -> None:
    cluster = cluster_at(0)
    producer = started(cluster)
    send(cluster, producer, FIRST)
    first = resolve(lake, cluster)
    at_run(cluster, 1)
    cluster.end(producer, COMMIT)
    lake.copy_logs(cluster.logs)
    write_log(lake, v1(cluster.entries[2:]))

    found = lake.run(1)

    assert fold_of(lake, first).end_offset == 2
    assert fold_of(lake, found).end_offset == len(cluster.entries)
    (row,) = found.transactions
    assert (row["outcome"], row["partitions_expected"]) == ("committed", ["t-0"])


def test_completed_transactions_are_pruned_but_for_the_last_of_each_id(lake: RunLake) -> None:
    cluster = cluster_at(0)
    producer = started(cluster, version=TV0)
    for _ in range(5):
        send(cluster, producer, FIRST)
        cluster.end(producer, COMMIT)

    fold = fold_of(lake, resolve(lake, cluster))

    (txn,) = fold.timelines["a"].transactions
    assert fold.completed == {("a", txn.first_record_offset)}
    assert all(own["unsettled"] == 0 for own in lake.run(0).partitions.values())


def test_an_id_that_has_expired_is_pruned_with_its_last_transaction(lake: RunLake) -> None:
    cluster = cluster_at(0)
    producer = started(cluster)
    send(cluster, producer, FIRST)
    cluster.end(producer, COMMIT)
    tombstone = replace(cluster.entries[-1], offset=len(cluster.entries), value=None)
    cluster.entries.append(tombstone)

    fold = fold_of(lake, resolve(lake, cluster))

    assert fold.timelines == {}
    assert fold.end_offset == len(cluster.entries)


def test_an_expired_id_with_an_open_transaction_is_remembered_and_ambiguous(lake: RunLake) -> None:
    cluster = cluster_at(0)
    send(cluster, started(cluster), FIRST)
    cluster.entries.append(replace(cluster.entries[-1], offset=len(cluster.entries), value=None))

    for run in (0, 1):
        found = resolve(lake, cluster, run)
        (row,) = found.transactions
        assert (row["outcome"], row["transactional_id"]) == ("ambiguous", "a")
        assert fold_of(lake, found).expired == {"a"}


def test_a_log_that_a_newer_leader_has_rewritten_is_reported(lake: RunLake) -> None:
    cluster = cluster_at(0)
    producer = prepared(cluster)
    resolve(lake, cluster)
    at_run(cluster, 1)
    cluster.fail_over()
    send(cluster, producer, FIRST)
    rewritten = [*cluster.entries[:2], *(replace(e, coordinator_epoch=9) for e in cluster.entries[2:])]
    write_log(lake, v1(rewritten))

    lake.run(1)

    (message,) = lake.messages(1, "rebuild")
    assert message.startswith("__transaction_state-0: offsets from 2 on were folded by an earlier run")


def test_a_missing_partition_of_the_log_is_reported(lake: RunLake) -> None:
    cluster = cluster_at(0)
    prepared(cluster)
    lake.copy_logs(cluster.logs)
    file = Path(lake.settings.sources[0].root, f"{TRANSACTION_STATE}-2", SEGMENT)
    file.parent.mkdir(parents=True)
    file.write_bytes(b"".join(v1(cluster.entries)))
    (message,) = lake.run(0).messages
    assert message.startswith("partitions 0, 1 of __transaction_state are missing")


def test_a_copy_reaches_as_far_as_its_records_before_any_damage(lake: RunLake) -> None:
    cluster = cluster_at(0)
    producer = started(cluster)
    for _ in range(3):
        cluster.now += 1000
        send(cluster, producer, FIRST)
        cluster.end(producer, COMMIT)
    lake.copy_logs(cluster.logs)
    whole = v1(cluster.entries)
    times = [
        entry.value.transaction_last_update_timestamp_ms
        for entry in cluster.entries
        if entry.value is not None
    ]
    damaged = bytes((*whole[4][:-1], whole[4][-1] ^ 1))

    write_log(lake, [*whole[:4], damaged, *whole[5:]])
    assert fold_of(lake, lake.run(0)).newest_timestamp == times[3]
    write_log(lake, whole)
    assert fold_of(lake, lake.run(1)).newest_timestamp == times[-1]


def test_a_fold_of_the_first_format_does_not_know_how_far_it_reaches() -> None:
    fold = CoordinatorFold(end_offset=7, newest_timestamp=5)
    assert read_fold(write_fold(fold)) == fold
    old = b'{"end_offset":7,"format":1,"leader_epochs":[]}\n'
    assert read_fold(old) == CoordinatorFold(end_offset=7)


def test_a_fold_survives_its_bytes(lake: RunLake) -> None:
    cluster = cluster_at(0)
    prepared(cluster)
    send(cluster, started(cluster, "b\u00e9", TV0), FIRST)
    fold = fold_of(lake, resolve(lake, cluster))
    assert write_fold(read_fold(write_fold(fold))) == write_fold(fold)
    assert fold.timelines.keys() == {"a", "b\u00e9"}
    assert end_of_day(0) > fold.timelines["a"].transactions[0].start_timestamp_ms
