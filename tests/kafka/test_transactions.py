"""One outcome per transaction, rule by rule (facts §3.8; the property tests draw the rest)."""

from dataclasses import dataclass, replace

import pytest

from spark_jobs.kafka.coordinator.history import CoordinatorEntry, UnreadableRecord
from spark_jobs.kafka.formats.transaction_state import TransactionLogValue, TransactionState
from spark_jobs.kafka.topic_partition import TopicPartition
from spark_jobs.kafka.transactions.hanging import CopyReach
from spark_jobs.kafka.transactions.outcome import Evidence, Outcome, ResolvedTransaction
from spark_jobs.kafka.transactions.partition_transactions import PartitionTransaction, WrittenMarker
from spark_jobs.kafka.transactions.resolve import ResolveContext
from tests.kafka.coordinator_values import NOW, ORDERS_0, ORDERS_1, history, value
from tests.kafka.resolving import resolve_all

EMPTY, ONGOING = TransactionState.EMPTY, TransactionState.ONGOING
PREPARE_COMMIT, PREPARE_ABORT = TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT
COMPLETE_COMMIT, COMPLETE_ABORT = TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT
COMMITTED, ABORTED, HELD = Outcome.COMMITTED, Outcome.ABORTED, Outcome.ONGOING
HANGING, CONFLICT, AMBIGUOUS = Outcome.HANGING, Outcome.CONFLICT, Outcome.AMBIGUOUS
SKEW = 1000
FAR = CopyReach(recorded_until={0: NOW + 10 * 86_400_000}, state_partitions=1, clock_skew_ms=SKEW)
"""A coordinator's log that was copied long after everything else."""
Values = tuple[TransactionLogValue | None, ...]


def part(
    partition: TopicPartition = ORDERS_0,
    *,
    epoch: int = 4,
    at: int = 0,
    ts: int = NOW,
    batches: int = 1,
    marker: WrittenMarker | None = None,
    pid: int = 4000,
) -> PartitionTransaction:
    return PartitionTransaction(
        topic_partition=partition,
        producer_id=pid,
        producer_epoch=epoch,
        first_offset=at,
        last_offset=at,
        batch_count=batches,
        first_timestamp=ts,
        last_timestamp=ts,
        marker=marker,
    )


def followed(part: PartitionTransaction) -> PartitionTransaction:
    """A part behind which another producer's marker was written at once."""
    return replace(part, appended_by=part.last_timestamp)


def commit(epoch: int = 4, ts: int = NOW + 11, coordinator_epoch: int = 0) -> WrittenMarker:
    return WrittenMarker(
        offset=9, producer_epoch=epoch, coordinator_epoch=coordinator_epoch, timestamp=ts, is_commit=True
    )


def abort(epoch: int = 4, ts: int = NOW + 11) -> WrittenMarker:
    return WrittenMarker(offset=9, producer_epoch=epoch, coordinator_epoch=0, timestamp=ts, is_commit=False)


def older(*end: TransactionState, start: int = NOW) -> Values:
    """A transaction of an older client on both partitions, epoch 4, decided 10 ms after its start."""
    partitions = (ORDERS_0, ORDERS_1)
    states = {state: value(state, *partitions, epoch=4, start=start, update=start + 10) for state in end}
    return (value(ONGOING, *partitions, epoch=4, start=start), *states.values())


def newer(*end: TransactionState) -> Values:
    """A transaction of a TV2 client on both partitions: data at epoch 4, markers at 5."""
    partitions = (ORDERS_0, ORDERS_1)
    states = {state: value(state, *partitions, epoch=5, update=NOW + 10, tv=2) for state in end}
    return (value(ONGOING, *partitions, epoch=4, tv=2), *states.values())


IDLE = value(EMPTY, epoch=4, start=NOW)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    title: str
    log: Values
    parts: tuple[PartitionTransaction, ...]
    outcomes: tuple[Outcome, ...]
    evidence: tuple[Evidence, ...] = ()
    """Of the first transaction."""
    now: int = NOW + 100
    has_log: bool = True
    has_markers: bool = True


CASES = (
    Case(
        title="the coordinator and all markers agree",
        log=newer(PREPARE_COMMIT, COMPLETE_COMMIT),
        parts=(part(marker=commit(5)), part(ORDERS_1, marker=commit(5))),
        outcomes=(COMMITTED,),
        evidence=(Evidence.COORDINATOR, Evidence.MARKER),
    ),
    Case(
        title="a prepared commit decides where no marker has come",
        log=older(PREPARE_COMMIT),
        parts=(part(), part(ORDERS_1, marker=commit())),
        outcomes=(COMMITTED,),
        evidence=(Evidence.COORDINATOR, Evidence.MARKER_MISSING),
    ),
    Case(
        title="a prepared abort decides where no marker has come",
        log=newer(PREPARE_ABORT),
        parts=(part(), part(ORDERS_1)),
        outcomes=(ABORTED,),
        evidence=(Evidence.COORDINATOR, Evidence.MARKER_MISSING),
    ),
    Case(
        title="a completed TV2 transaction decides a torn partition by its epoch",
        log=(value(COMPLETE_COMMIT, epoch=5, tv=2, update=NOW + 10),),
        parts=(part(),),
        outcomes=(COMMITTED,),
        evidence=(Evidence.COORDINATOR, Evidence.MARKER_MISSING, Evidence.PRODUCER_EPOCH),
    ),
    Case(
        title="a completed TV2 abort is read the same way",
        log=(value(COMPLETE_ABORT, epoch=5, tv=2, update=NOW + 10),),
        parts=(part(),),
        outcomes=(ABORTED,),
    ),
    Case(
        title="a completed older transaction decides a torn partition by order and time",
        log=(IDLE, *older(PREPARE_COMMIT, COMPLETE_COMMIT)),
        parts=(part(ts=NOW + 5),),
        outcomes=(COMMITTED,),
        evidence=(Evidence.COORDINATOR, Evidence.MARKER_MISSING, Evidence.CLOCK),
    ),
    Case(
        title="a completed older transaction of another time proves nothing",
        log=(value(COMPLETE_COMMIT, epoch=4, start=NOW + 90_000, update=NOW + 90_010),),
        parts=(part(),),
        outcomes=(COMMITTED, HANGING),
    ),
    Case(
        title="what compaction left may not be the torn transaction but an older one",
        log=(value(COMPLETE_COMMIT, epoch=4, update=NOW + 10),),
        parts=(part(ts=NOW + 5),),
        outcomes=(COMMITTED, AMBIGUOUS),
    ),
    Case(
        title="ongoing is held",
        log=newer(),
        parts=(part(), part(ORDERS_1)),
        outcomes=(HELD,),
        evidence=(Evidence.COORDINATOR,),
    ),
    Case(
        title="ongoing past its timeout is aborted, with that evidence",
        log=older(),
        parts=(part(),),
        outcomes=(ABORTED,),
        evidence=(Evidence.COORDINATOR, Evidence.TIMEOUT),
        now=NOW + 60_001,
    ),
    Case(
        title="two-phase commit never times out",
        log=(value(ONGOING, ORDERS_0, epoch=4, timeout=2**31 - 1),),
        parts=(part(),),
        outcomes=(HELD,),
        now=NOW + 2**40,
    ),
    Case(
        title="a marker that contradicts a TV2 decision is a conflict for all of the transaction",
        log=newer(PREPARE_COMMIT),
        parts=(part(marker=commit(5)), part(ORDERS_1, marker=abort(5))),
        outcomes=(CONFLICT,),
        evidence=(Evidence.CONTRADICTION, Evidence.COORDINATOR, Evidence.MARKER),
    ),
    Case(
        title="a marker that contradicts an older client's decision is a conflict",
        log=(IDLE, *older(PREPARE_COMMIT, COMPLETE_COMMIT)),
        parts=(part(marker=abort()),),
        outcomes=(CONFLICT,),
    ),
    Case(
        title="a marker that contradicts a decision being carried out is a conflict",
        log=(value(PREPARE_COMMIT, ORDERS_0, epoch=4, update=NOW + 10),),
        parts=(part(marker=abort()),),
        outcomes=(CONFLICT,),
    ),
    Case(
        title="an operator's abort of a committed transaction is a conflict",
        log=newer(PREPARE_COMMIT, COMPLETE_COMMIT),
        parts=(part(marker=abort(4)), part(ORDERS_1, marker=commit(5))),
        outcomes=(CONFLICT,),
    ),
    Case(
        title="an older transaction's marker is no contradiction",
        log=(IDLE, *older(PREPARE_ABORT)),
        parts=(part(marker=commit(ts=NOW - 5000)), part(at=5, marker=abort())),
        outcomes=(ABORTED, COMMITTED),
    ),
    Case(
        title="markers ahead of the coordinator's log decide every partition",
        log=newer(),
        parts=(part(marker=commit(5)), part(ORDERS_1)),
        outcomes=(COMMITTED,),
        evidence=(Evidence.MARKER, Evidence.AHEAD_OF_COORDINATOR),
        now=NOW + 60_001,
    ),
    Case(
        title="markers ahead of the coordinator's log that disagree are a conflict",
        log=newer(),
        parts=(part(marker=commit(5)), part(ORDERS_1, marker=abort(5))),
        outcomes=(CONFLICT,),
    ),
    Case(
        title="a fence closes with a bumped epoch",
        log=(
            value(ONGOING, ORDERS_0, epoch=4),
            value(PREPARE_ABORT, ORDERS_0, epoch=5, tv=2, update=NOW + 10),
        ),
        parts=(part(marker=commit(4, ts=NOW - 5000)), part(at=5, marker=abort(5))),
        outcomes=(ABORTED, COMMITTED),
    ),
    Case(
        title="the fence of 4.0 closes with an epoch bumped twice",
        log=(
            value(ONGOING, ORDERS_0, epoch=4, tv=2),
            value(PREPARE_ABORT, ORDERS_0, epoch=6, tv=2, update=NOW + 10),
        ),
        parts=(part(marker=abort(6)),),
        outcomes=(ABORTED,),
        evidence=(Evidence.COORDINATOR, Evidence.MARKER),
    ),
    Case(
        title="markers repeated after a failover change nothing",
        log=newer(PREPARE_COMMIT, COMPLETE_COMMIT),
        parts=(
            part(marker=commit(5)),
            part(epoch=5, at=10, batches=0, marker=commit(5, coordinator_epoch=1)),
            part(ORDERS_1, marker=commit(5)),
        ),
        outcomes=(COMMITTED,),
        evidence=(Evidence.COORDINATOR, Evidence.MARKER),
    ),
    Case(
        title="a transaction that wrote nothing has an outcome too",
        log=newer(PREPARE_ABORT, COMPLETE_ABORT),
        parts=(),
        outcomes=(ABORTED,),
        evidence=(Evidence.COORDINATOR,),
    ),
    Case(
        title="the last epoch is the old producer id's transaction",
        log=(
            value(ONGOING, ORDERS_0, epoch=32766, tv=2),
            value(PREPARE_COMMIT, ORDERS_0, epoch=32767, tv=2, previous_pid=4000, next_pid=5001),
            value(COMPLETE_COMMIT, pid=5001, epoch=0, tv=2, previous_pid=4000),
        ),
        parts=(part(epoch=32766),),
        outcomes=(COMMITTED,),
        evidence=(Evidence.COORDINATOR, Evidence.MARKER_MISSING, Evidence.PRODUCER_EPOCH),
    ),
    Case(
        title="open, but the coordinator lists other partitions: hanging",
        log=(value(ONGOING, ORDERS_1, epoch=4),),
        parts=(part(),),
        outcomes=(HELD, HANGING),
    ),
    Case(
        title="open, but prepared without this partition: hanging",
        log=(value(PREPARE_COMMIT, ORDERS_1, epoch=5, tv=2),),
        parts=(part(),),
        outcomes=(COMMITTED, HANGING),
    ),
    Case(
        title="open, but the id has moved on: hanging",
        log=(value(EMPTY, epoch=6),),
        parts=(part(),),
        outcomes=(HANGING,),
        evidence=(Evidence.NOT_LISTED,),
    ),
    Case(
        title="open, and no coordinator has the producer id: hanging",
        log=(value(EMPTY, pid=1),),
        parts=(part(),),
        outcomes=(HANGING,),
        evidence=(Evidence.NO_COORDINATOR_ENTRY,),
    ),
    Case(
        title="a tombstone right after an ongoing record does not prove its end",
        log=(*older(), None),
        parts=(part(),),
        outcomes=(AMBIGUOUS,),
        evidence=(Evidence.END_NOT_RECORDED,),
    ),
    Case(
        title="no coordinator log: a marker decides",
        log=(),
        parts=(part(marker=commit()), part(ORDERS_1, marker=abort())),
        outcomes=(COMMITTED, ABORTED),
        evidence=(Evidence.MARKER, Evidence.NO_COORDINATOR_LOG),
        has_log=False,
    ),
    Case(
        title="no coordinator log: a bumped commit decides its epoch's other partitions",
        log=(),
        parts=(part(marker=commit(5)), part(ORDERS_1)),
        outcomes=(COMMITTED,),
        evidence=(Evidence.MARKER_ELSEWHERE, Evidence.PRODUCER_EPOCH, Evidence.NO_COORDINATOR_LOG),
        has_log=False,
    ),
    Case(
        title="no coordinator log: a bumped abort may be a fence and decides no other partition",
        log=(),
        parts=(part(marker=abort(5)), part(ORDERS_1)),
        outcomes=(ABORTED, HELD),
        has_log=False,
    ),
    Case(
        title="no coordinator log: TV2 markers that disagree are a conflict",
        log=(),
        parts=(part(marker=commit(5)), part(ORDERS_1, marker=abort(5))),
        outcomes=(CONFLICT,),
        has_log=False,
    ),
    Case(
        title="no coordinator log: open is held",
        log=(),
        parts=(part(),),
        outcomes=(HELD,),
        evidence=(Evidence.NO_COORDINATOR_LOG,),
        has_log=False,
    ),
    Case(
        title="capture: TV2 by producer id and epoch",
        log=newer(PREPARE_COMMIT, COMPLETE_COMMIT),
        parts=(part(ts=0), part(ORDERS_1, ts=NOW + 10**9)),
        outcomes=(COMMITTED,),
        evidence=(Evidence.COORDINATOR, Evidence.PRODUCER_EPOCH),
        has_markers=False,
    ),
    Case(
        title="capture: older clients by time",
        log=(IDLE, *older(PREPARE_COMMIT), *older(PREPARE_ABORT, start=NOW + 5000)),
        parts=(part(ts=NOW + 3), part(at=1, ts=NOW + 5003)),
        outcomes=(COMMITTED, ABORTED),
        evidence=(Evidence.COORDINATOR, Evidence.CLOCK),
        has_markers=False,
    ),
    Case(
        title="capture: closer than the clock skew is ambiguous",
        log=(IDLE, *older(PREPARE_COMMIT), *older(PREPARE_ABORT, start=NOW + 500)),
        parts=(part(ts=NOW + 3), part(at=1, ts=NOW + 505)),
        outcomes=(COMMITTED, ABORTED, AMBIGUOUS),
        has_markers=False,
    ),
    Case(
        title="capture: closer than the clock skew is decided where both ended alike",
        log=(IDLE, *older(PREPARE_COMMIT), *older(PREPARE_COMMIT, start=NOW + 500)),
        parts=(part(ts=NOW + 3), part(at=1, ts=NOW + 505)),
        outcomes=(COMMITTED, COMMITTED),
        has_markers=False,
    ),
    Case(
        title="capture: what is between two batches of a transaction is of it",
        log=(
            IDLE,
            value(ONGOING, ORDERS_0, epoch=4),
            value(PREPARE_COMMIT, ORDERS_0, epoch=4, update=NOW + 4000),
            *older(PREPARE_ABORT, start=NOW + 4500),
        ),
        parts=(part(ts=NOW + 3600), part(at=1, ts=NOW + 3400)),
        outcomes=(COMMITTED, ABORTED),
        has_markers=False,
    ),
    Case(
        title="capture: an epoch of which no record is left is ambiguous",
        log=(value(EMPTY, epoch=9),),
        parts=(part(),),
        outcomes=(AMBIGUOUS,),
        evidence=(Evidence.END_NOT_RECORDED,),
        has_markers=False,
    ),
    Case(
        title="capture: ongoing is held",
        log=(IDLE, *older()),
        parts=(part(ts=NOW + 50),),
        outcomes=(HELD,),
        has_markers=False,
    ),
)


def resolved(case: Case) -> list[ResolvedTransaction]:
    context = ResolveContext(
        now=case.now,
        past=case.now,
        clock_skew_ms=SKEW,
        has_coordinator_log=case.has_log,
        has_markers=case.has_markers,
        reach=FAR,
    )
    return resolve_all(history(*case.log), map(followed, case.parts), context)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
def test_outcome(case: Case) -> None:
    found = [txn for txn in resolved(case) if txn.producer_id == 4000]
    assert tuple(txn.outcome for txn in found) == case.outcomes
    if case.evidence:
        assert found[0].evidence == case.evidence


def test_a_transaction_lists_its_partitions_and_what_is_missing() -> None:
    case = Case(title="", log=older(PREPARE_COMMIT), parts=(part(batches=3, marker=commit()),), outcomes=())
    (txn,) = resolved(case)
    assert txn.transactional_id == "id"
    assert txn.partitions_expected == (ORDERS_0, ORDERS_1)
    assert txn.partitions_found == (ORDERS_0,)
    assert txn.markers_missing == (ORDERS_1,)
    assert txn.batch_count == 3


def test_an_id_that_became_unreadable_is_ambiguous_rather_than_hanging() -> None:
    entries: tuple[CoordinatorEntry, ...] = (
        *history(value(EMPTY, epoch=4)),
        UnreadableRecord(transactional_id="id", offset=1, coordinator_epoch=0, problem="?"),
    )
    (txn,) = resolve_all(entries, [part()], ResolveContext(now=NOW, past=NOW, clock_skew_ms=SKEW))
    assert (txn.outcome, txn.evidence) == (AMBIGUOUS, (Evidence.END_NOT_RECORDED,))


def test_only_committed_and_aborted_are_decided() -> None:
    assert [outcome for outcome in Outcome if outcome.is_decided] == [COMMITTED, ABORTED]
