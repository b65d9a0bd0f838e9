"""Transactions that span missing offsets: decided if the coordinator's log proves it, else ambiguous."""

from dataclasses import dataclass, replace

import pytest

from spark_jobs.kafka.log.replica_copies import Gap
from spark_jobs.kafka.topic_partition import TopicPartition
from spark_jobs.kafka.transactions.outcome import Evidence, Outcome
from spark_jobs.kafka.transactions.partition_transactions import PartitionTransaction, SpannedGap, fold
from spark_jobs.kafka.transactions.resolve import ResolveContext
from tests.kafka.broker_batches import commit_batch, data_batch, plain_batch
from tests.kafka.coordinator_values import NOW, ORDERS_0, history, value
from tests.kafka.resolving import resolve_all
from tests.kafka.test_transactions import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    IDLE,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    SKEW,
    Values,
    abort,
    commit,
    older,
    part,
)
from tests.kafka.txn_logs import log_batches

PARTITION = TopicPartition("orders", 0)
GAP = SpannedGap(first_offset=3, last_offset=4)
LATER = NOW + 60_000
COMMITTED, ABORTED, AMBIGUOUS = Outcome.COMMITTED, Outcome.ABORTED, Outcome.AMBIGUOUS
BOTH_ENDS = {COMPLETE_COMMIT: PREPARE_COMMIT, COMPLETE_ABORT: PREPARE_ABORT}


def spanning(first: PartitionTransaction, *, last_ts: int, epoch: int = 4) -> PartitionTransaction:
    """`first`, a gap, and more data of the same producer."""
    bumped = first.producer_epoch if epoch != first.producer_epoch else None
    return replace(first, last_timestamp=last_ts, producer_epoch=epoch, first_epoch=bumped, gap=GAP)


def tv2(*, epoch: int, commits: bool, start: int) -> Values:
    end = COMPLETE_COMMIT if commits else COMPLETE_ABORT
    return (
        value(ONGOING, ORDERS_0, epoch=epoch, start=start, tv=2),
        value(BOTH_ENDS[end], ORDERS_0, epoch=epoch + 1, start=start, update=start + 10, tv=2),
        value(end, ORDERS_0, epoch=epoch + 1, start=start, update=start + 10, tv=2),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    title: str
    part: PartitionTransaction
    outcome: Outcome
    log: Values = ()


ABORT_THEN_COMMIT = (
    IDLE,
    *older(PREPARE_ABORT, COMPLETE_ABORT),
    *older(PREPARE_COMMIT, COMPLETE_COMMIT, start=LATER),
)
COMMIT_THEN_ABORT = (
    IDLE,
    *older(PREPARE_COMMIT, COMPLETE_COMMIT),
    *older(PREPARE_ABORT, COMPLETE_ABORT, start=LATER),
)
COMMIT_TWICE = (
    IDLE,
    *older(PREPARE_COMMIT, COMPLETE_COMMIT),
    *older(PREPARE_COMMIT, COMPLETE_COMMIT, start=LATER),
)
CASES = (
    Case(
        title="a hidden abort is not made good by the next commit",
        log=ABORT_THEN_COMMIT,
        part=spanning(part(marker=commit(ts=LATER + 11)), last_ts=LATER),
        outcome=AMBIGUOUS,
    ),
    Case(
        title="a hidden commit is not lost to the next abort",
        log=COMMIT_THEN_ABORT,
        part=spanning(part(marker=abort(ts=LATER + 11)), last_ts=LATER),
        outcome=AMBIGUOUS,
    ),
    Case(
        title="where all transactions that it can be of have committed, it is committed",
        log=COMMIT_TWICE,
        part=spanning(part(marker=commit(ts=LATER + 11)), last_ts=LATER),
        outcome=COMMITTED,
    ),
    Case(
        title="where the coordinator had but one transaction there, the gap hides no marker that matters",
        log=(IDLE, *older(PREPARE_COMMIT, COMPLETE_COMMIT)),
        part=spanning(part(marker=commit()), last_ts=NOW),
        outcome=COMMITTED,
    ),
    Case(
        title="one that ended long before the part began is not in it",
        log=ABORT_THEN_COMMIT,
        part=spanning(part(ts=LATER, marker=commit(ts=LATER + 11)), last_ts=LATER),
        outcome=COMMITTED,
    ),
    Case(
        title="a transaction that compaction removed from the coordinator's log stays ambiguous",
        log=older(PREPARE_COMMIT, COMPLETE_COMMIT),
        part=spanning(part(marker=commit()), last_ts=NOW),
        outcome=AMBIGUOUS,
    ),
    Case(
        title="an epoch of TV2 names its transaction across the gap",
        log=tv2(epoch=4, commits=True, start=NOW),
        part=spanning(part(marker=commit(5)), last_ts=NOW),
        outcome=COMMITTED,
    ),
    Case(
        title="two epochs of TV2 are two transactions: one aborted, one committed",
        log=(*tv2(epoch=3, commits=False, start=NOW - 50), *tv2(epoch=4, commits=True, start=NOW)),
        part=spanning(part(epoch=3, marker=commit(5)), last_ts=NOW),
        outcome=AMBIGUOUS,
    ),
    Case(
        title="two epochs of TV2 that both committed",
        log=(*tv2(epoch=3, commits=True, start=NOW - 50), *tv2(epoch=4, commits=True, start=NOW)),
        part=spanning(part(epoch=3, marker=commit(5)), last_ts=NOW),
        outcome=COMMITTED,
    ),
    Case(
        title="without the coordinator's log a marker behind a gap decides nothing",
        part=spanning(part(marker=commit()), last_ts=NOW),
        outcome=AMBIGUOUS,
    ),
    Case(
        title="without the coordinator's log a bumped commit still decides its epoch",
        part=spanning(part(marker=commit(5)), last_ts=NOW),
        outcome=COMMITTED,
    ),
    Case(
        title="without the coordinator's log a bumped abort may be a fence",
        part=spanning(part(marker=abort(5)), last_ts=NOW),
        outcome=AMBIGUOUS,
    ),
    Case(
        title="the gap hides the marker and none follows: a prepared commit decides",
        log=(IDLE, *older(PREPARE_COMMIT)),
        part=spanning(part(), last_ts=NOW),
        outcome=COMMITTED,
    ),
    Case(
        title="the gap hides the marker and none follows: a completed abort decides",
        log=(IDLE, *older(PREPARE_ABORT, COMPLETE_ABORT)),
        part=spanning(part(), last_ts=NOW),
        outcome=ABORTED,
    ),
    Case(
        title="no marker follows, and the next transaction continues in the same part",
        log=(IDLE, *older(PREPARE_ABORT, COMPLETE_ABORT), *older(PREPARE_COMMIT, start=LATER)),
        part=spanning(part(), last_ts=LATER),
        outcome=AMBIGUOUS,
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
def test_what_spans_a_gap(case: Case) -> None:
    context = ResolveContext(
        now=LATER + 100, past=LATER + 100, clock_skew_ms=SKEW, has_coordinator_log=bool(case.log)
    )
    resolved = resolve_all(history(*case.log), [case.part], context)
    (own,) = [txn for txn in resolved if txn.parts]
    assert own.outcome is case.outcome
    assert own.is_set_aside == (own.outcome is AMBIGUOUS)


def test_transactions_that_an_unclear_part_may_hold_data_of_are_reported_so() -> None:
    context = ResolveContext(now=LATER + 100, past=LATER + 100, clock_skew_ms=SKEW)
    unclear = spanning(part(marker=commit(ts=LATER + 11)), last_ts=LATER)
    first, second, own = resolve_all(history(*ABORT_THEN_COMMIT), [unclear], context)
    assert (first.outcome, second.outcome, own.outcome) == (ABORTED, COMMITTED, AMBIGUOUS)
    assert first.evidence == second.evidence == (Evidence.COORDINATOR, Evidence.GAP)


def gap(first: int, last: int) -> Gap:
    return Gap(place=0, first_offset=first, last_offset=last)


def test_what_is_open_at_a_gap_spans_it_and_what_begins_behind_it_does_not() -> None:
    log = log_batches(
        data_batch(pid=4, txn=True, at=0),
        data_batch(pid=5, txn=True, at=3),
        commit_batch(pid=4, at=4),
        commit_batch(pid=5, at=5),
    )
    closed, _ = fold(log, PARTITION, gaps=[gap(1, 2)])
    assert [txn.gap for txn in closed] == [SpannedGap(first_offset=1, last_offset=2), None]


def test_of_several_gaps_the_first_offset_and_the_last_are_kept() -> None:
    log = log_batches(data_batch(pid=4, txn=True, at=0), plain_batch(at=3), plain_batch(at=9))
    _, left = fold(log, PARTITION, gaps=[gap(1, 2), gap(4, 8)])
    assert left[4].gap == SpannedGap(first_offset=1, last_offset=8)


def test_holes_that_are_not_reported_as_gaps_mean_nothing() -> None:
    log = log_batches(data_batch(pid=4, txn=True, at=0), commit_batch(pid=4, at=7))
    (closed,), _ = fold(log, PARTITION)
    assert closed.gap is None
