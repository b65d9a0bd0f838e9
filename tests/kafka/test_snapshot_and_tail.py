"""Properties: a snapshot and the log after it give the state of the whole log, except for older batches."""

from collections.abc import Iterable
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.kafka.formats.snapshot import read_snapshot, write_snapshot
from spark_jobs.kafka.producers.admission import fold
from spark_jobs.kafka.producers.producer_state import (
    AppendOrigin,
    ProducerStateEntry,
    ProducerStates,
    TransactionVersion,
)
from spark_jobs.kafka.producers.verdict import BatchRow, Verdict
from spark_jobs.sample.broker.log_loader import load
from spark_jobs.sample.broker.log_segment import base_offset_of
from spark_jobs.sample.broker.partition_log import PartitionLog
from spark_jobs.sample.broker.replica_log import PartitionConfig
from tests.cases.admission import CLIENT, REPLICATION
from tests.kafka.admission_strategies import ROWS
from tests.kafka.broker_batches import batch_of
from tests.kafka.log_steps import NOW, log_bytes

LIVES = st.lists(ROWS, min_size=1, max_size=20)
CUTS = st.integers(0, 20)


def accepted(rows: Iterable[BatchRow]) -> list[BatchRow]:
    """The rows that a leader would accept, with their offsets."""
    kept = list(rows)
    decisions, _ = fold(ProducerStates(), kept, rules=CLIENT)
    return [
        replace(row, header=replace(row.header, base_offset=decision.base_offset))
        for row, decision in zip(kept, decisions, strict=True)
        if decision.verdict is Verdict.ACCEPTED
    ]


def through_a_snapshot(states: ProducerStates) -> ProducerStates:
    """`states` as a restart finds them in the file."""
    entries = read_snapshot(write_snapshot(states.producers.values()))
    return replace(states, producers={entry.producer_id: entry for entry in entries})


def known_by_both(entry: ProducerStateEntry) -> tuple[object, ...]:
    """A producer as a snapshot stores it: without older batches and the newest one's own time."""
    return (
        entry.producer_epoch,
        entry.coordinator_epoch,
        entry.last_timestamp,
        entry.current_txn_first_offset,
        entry.last_sequence,
        entry.last_data_offset,
    )


def is_newest_part(some: ProducerStateEntry, of: ProducerStateEntry) -> bool:
    """Whether `some` remembers the newest of the batches that `of` does, times apart."""
    ranges = [[(batch.first_sequence, batch.last_offset) for batch in e.batches] for e in (some, of)]
    return ranges[0] == ranges[1][len(ranges[1]) - len(ranges[0]) :]


@given(LIVES, CUTS)
def test_snapshot_and_tail_equal_the_whole(rows: list[BatchRow], cut: int) -> None:
    log = accepted(rows)
    _, whole = fold(ProducerStates(), log, rules=REPLICATION)
    _, before = fold(ProducerStates(), log[:cut], rules=REPLICATION)
    _, resumed = fold(through_a_snapshot(before), log[cut:], rules=REPLICATION)
    assert resumed.end_offset == whole.end_offset
    assert resumed.producers.keys() == whole.producers.keys()
    for producer_id, entry in whole.producers.items():
        assert known_by_both(resumed.producers[producer_id]) == known_by_both(entry)
        assert is_newest_part(resumed.producers[producer_id], of=entry)


@given(st.lists(ROWS.filter(lambda row: row.header.producer_epoch >= 0), max_size=20), CUTS)
def test_a_leaders_verdicts_after_a_restart_differ_only_where_the_window_was_lost(
    rows: list[BatchRow], cut: int
) -> None:
    """A lost batch turns a duplicate into a stale one; accepted batches are the same.

    Without an epoch there is no order to hold against a resend, so such producers stay out.
    """
    _, before = fold(ProducerStates(), rows[:cut], rules=CLIENT)
    kept, _ = fold(before, rows[cut:], rules=CLIENT)
    restarted, _ = fold(through_a_snapshot(before), rows[cut:], rules=CLIENT)
    for went_on, came_back in zip(kept, restarted, strict=True):
        lost = went_on.verdict is Verdict.DUPLICATE and came_back.verdict is Verdict.STALE_DUPLICATE
        assert lost or went_on.verdict is came_back.verdict
        assert lost or went_on.base_offset == came_back.base_offset


def written(rows: Iterable[BatchRow]) -> PartitionLog:
    """A leader's log in small segments, without verification; rejected batches are not in it."""
    config = PartitionConfig(segment_bytes=300, transaction_partition_verification_enable=False)
    log = PartitionLog(config, now=NOW)
    for row in rows:
        if row.marker is not None:
            log.append(
                batch_of(row),
                now=NOW,
                origin=AppendOrigin.COORDINATOR,
                transaction_version=TransactionVersion.TV1,
            )
        elif row.header.record_count and not row.header.is_control:
            log.append(batch_of(row), now=NOW)
    log.update_high_watermark(log.log_end_offset)
    return log


def summary(log: PartitionLog) -> object:
    """What must survive a restart; entries of an unknown age are expired by it, so they stay out."""
    producers = {p: known_by_both(e) for p, e in log.manager.producers.items() if e.last_timestamp >= 0}
    return log_bytes(log), log.log_end_offset, log.last_stable_offset, log.aborted, producers


@given(LIVES, st.booleans(), st.booleans())
def test_a_log_comes_back_from_its_files(rows: list[BatchRow], clean: bool, with_snapshots: bool) -> None:
    log = written(rows)
    if clean:
        log.close()
    files = log.files()
    if not clean and not with_snapshots:
        files = {name: data for name, data in files.items() if not name.endswith(("snapshot", "index"))}
    loaded = load(files, clean=clean, now=NOW, config=log.config, high_watermark=log.log_end_offset)
    assert summary(loaded) == summary(log)


@given(LIVES, CUTS)
def test_truncation_is_as_if_the_rest_had_never_been_written(rows: list[BatchRow], cut: int) -> None:
    log = written(rows)
    boundaries = [base_offset_of(batch) for segment in log.segments for batch in segment.batches]
    target = boundaries[cut % len(boundaries)] if boundaries else 0
    kept = log_bytes(log)
    log.truncate_to(target, now=NOW)
    assert log.log_end_offset == target
    assert kept.startswith(log_bytes(log))
    fresh = load(
        {name: data for name, data in log.files().items() if name.endswith(".log")},
        clean=False,
        now=NOW,
        config=log.config,
        high_watermark=target,
    )
    assert summary(log) == summary(fresh)
