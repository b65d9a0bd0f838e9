"""Batches and their expected verdicts: one table for the pure rules, the kernel and Spark.

A case is a partition's history: steps in arrival order, each folded with its own rules onto the state after
the steps before it. Titles begin with the row of facts §9 that a case covers.
"""

from dataclasses import dataclass

from spark_jobs.kafka.producers.producer_state import AppendOrigin, TransactionVersion
from spark_jobs.kafka.producers.sequence import MAX_SEQUENCE as MAX
from spark_jobs.kafka.producers.verdict import BatchRow, Rules, Verdict
from tests.cases.batch_rows import abort, commit, data, empty_control

CLIENT = Rules(origin=AppendOrigin.CLIENT)
CLIENT_TV2 = Rules(origin=AppendOrigin.CLIENT, transaction_version=TransactionVersion.TV2)
COORDINATOR = Rules(origin=AppendOrigin.COORDINATOR)
COORDINATOR_TV1 = Rules(origin=AppendOrigin.COORDINATOR, transaction_version=TransactionVersion.TV1)
COORDINATOR_TV2 = Rules(origin=AppendOrigin.COORDINATOR, transaction_version=TransactionVersion.TV2)
CAPTURED = Rules(transaction_version=TransactionVersion.TV2, marker_version=TransactionVersion.TV1)
REPLICATION = Rules(origin=AppendOrigin.REPLICATION)
LENIENT = Rules(origin=AppendOrigin.REPLICATION, enforce_open_transaction=False)

ACCEPTED = Verdict.ACCEPTED
DUPLICATE = Verdict.DUPLICATE
STALE = Verdict.STALE_DUPLICATE
OUT_OF_ORDER = Verdict.OUT_OF_ORDER
FENCED = Verdict.FENCED
COORDINATOR_FENCED = Verdict.COORDINATOR_FENCED
INVALID_TXN = Verdict.INVALID_TRANSACTION_STATE
INVALID_RECORD = Verdict.INVALID_RECORD


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """The expected values of one decision; None is not checked."""

    verdict: Verdict
    base_offset: int | None = None
    expected_sequence: int | None = None
    expected_epoch: int | None = None
    txn_first_offset: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One batch, its rules and the expected decision."""

    row: BatchRow
    rules: Rules
    expected: Expected


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
    """The expected state of a producer at the end."""

    producer_id: int = 1
    producer_epoch: int = 0
    first_sequence: int = -1
    last_sequence: int = -1
    current_txn_first_offset: int | None = None
    coordinator_epoch: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionCase:
    """A partition from `start_offset` on; `remembered` lists the producers that are checked at the end."""

    title: str
    steps: tuple[Step, ...]
    remembered: tuple[Remembered, ...] = ()
    start_offset: int = 0


def then(
    row: BatchRow,
    verdict: Verdict,
    *,
    rules: Rules = CLIENT,
    at: int | None = None,
    expected_sequence: int | None = None,
    expected_epoch: int | None = None,
    txn: int | None = None,
) -> Step:
    """`row` under `rules` becomes `verdict`; `at` is the base offset it gets or had."""
    return Step(
        row=row,
        rules=rules,
        expected=Expected(
            verdict=verdict,
            base_offset=at,
            expected_sequence=expected_sequence,
            expected_epoch=expected_epoch,
            txn_first_offset=txn,
        ),
    )


def case(title: str, *steps: Step, remembered: tuple[Remembered, ...] = (), start: int = 0) -> AdmissionCase:
    return AdmissionCase(title=title, steps=steps, remembered=remembered, start_offset=start)


_B = (then(data(seq=0), ACCEPTED), then(data(seq=1), ACCEPTED))
"""State B: epoch 0, last sequence 1, nothing open."""
_T = (then(data(seq=0, txn=True), ACCEPTED, at=0), then(data(seq=1, txn=True), ACCEPTED, at=1))
"""State T: the same inside a transaction that began at offset 0."""
_M = (then(commit(epoch=2), ACCEPTED, rules=COORDINATOR),)
"""State M: a marker of epoch 2 was the first thing ever seen of the producer."""
_Z = (then(empty_control(), ACCEPTED, rules=REPLICATION),)
"""State Z: an emptied control batch left an entry without epoch."""

SEQUENCES = (
    case(
        "row-001 sequence 0 then 1 of one epoch",
        then(data(seq=0), ACCEPTED, at=0, expected_sequence=-1, expected_epoch=-1),
        then(data(seq=1), ACCEPTED, at=1, expected_sequence=1, expected_epoch=0),
        remembered=(Remembered(first_sequence=0, last_sequence=1),),
    ),
    case(
        "a batch that claims nearly all sequences and so ends behind the last one was not taken before",
        *_B,
        then(data(seq=5, count=2**31 - 4), OUT_OF_ORDER, expected_sequence=2),
    ),
    case("row-003 last 1, append 5", *_B, then(data(seq=5), OUT_OF_ORDER, at=-1, expected_sequence=2)),
    case(
        "row-004 row-005 the next epoch begins at 0, then the old epoch is fenced",
        *_B,
        then(data(epoch=1, seq=0), ACCEPTED, at=2, expected_sequence=0),
        then(data(epoch=0, seq=0), FENCED, expected_epoch=1, expected_sequence=-1),
        remembered=(Remembered(producer_epoch=1, first_sequence=0, last_sequence=0),),
    ),
    case(
        "row-006 a COMMIT marker of an unknown producer is remembered by its epoch",
        *_M,
        remembered=(Remembered(producer_epoch=2, coordinator_epoch=0),),
    ),
    case(
        "row-007 after that marker, data of epoch 0",
        *_M,
        then(data(epoch=0, seq=0), FENCED, expected_epoch=2),
    ),
    case(
        "row-008 after that marker, data of epoch 2 with sequence 17",
        *_M,
        then(data(epoch=2, seq=17), OUT_OF_ORDER, expected_sequence=0),
    ),
    case(
        "row-009 after that marker, data of epoch 2 with sequence 0",
        *_M,
        then(data(epoch=2, seq=0), ACCEPTED, at=1),
        remembered=(Remembered(producer_epoch=2, first_sequence=0, last_sequence=0),),
    ),
    case(
        "row-010 replicated 2^31-1, then 0 from the client",
        then(data(seq=MAX, at=0), ACCEPTED, rules=REPLICATION),
        then(data(seq=0), ACCEPTED, at=1, expected_sequence=0),
        remembered=(Remembered(first_sequence=MAX, last_sequence=0),),
    ),
    case(
        "row-011 replicated 2^31-1, then 1 from the client",
        then(data(seq=MAX, at=0), ACCEPTED, rules=REPLICATION),
        then(data(seq=1), OUT_OF_ORDER, expected_sequence=0),
    ),
    case(
        "row-012 a batch over the wrap, offsets 2000-2020",
        then(data(seq=MAX - 10, count=21), ACCEPTED, at=2000),
        remembered=(Remembered(first_sequence=MAX - 10, last_sequence=9),),
        start=2000,
    ),
    case(
        "row-013 a replicated first batch is taken without validation",
        then(data(epoch=5, seq=16, at=0), ACCEPTED, rules=REPLICATION),
        remembered=(Remembered(producer_epoch=5, first_sequence=16, last_sequence=16),),
    ),
    case(
        "row-027 replicated sequence 2 without state",
        then(data(seq=2, at=0), ACCEPTED, rules=REPLICATION),
        remembered=(Remembered(first_sequence=2, last_sequence=2),),
    ),
    case(
        "row-028 a gap is the client's error, not the replica's",
        then(data(seq=0), ACCEPTED),
        then(data(seq=3), OUT_OF_ORDER, expected_sequence=1),
        then(data(seq=3, at=1), ACCEPTED, rules=REPLICATION),
        remembered=(Remembered(first_sequence=0, last_sequence=3),),
    ),
    case(
        "row-039 the group coordinator writes without sequences",
        then(data(seq=-1, txn=True), ACCEPTED, rules=COORDINATOR),
        then(data(seq=-1, txn=True), ACCEPTED, rules=COORDINATOR),
        # A batch of sequence -1 wraps when its first sequence is computed back from its last.
        remembered=(Remembered(first_sequence=MAX, last_sequence=-1, current_txn_first_offset=0),),
    ),
    case(
        "row-053 after 0-2 of epoch 0, epoch 1 must begin at 0",
        then(data(seq=0, count=3), ACCEPTED),
        then(data(epoch=1, seq=5), OUT_OF_ORDER, expected_sequence=0),
        then(data(epoch=1, seq=0), ACCEPTED, at=3),
    ),
    case(
        "row-058 resends of remembered batches get their original offsets",
        *(then(data(seq=n), ACCEPTED, at=n) for n in range(6)),
        then(data(seq=6, count=3), ACCEPTED, at=6),
        then(data(seq=6, count=3), DUPLICATE, at=6),
        then(data(seq=2), DUPLICATE, at=2),
        then(data(seq=9), ACCEPTED, at=9),
    ),
    case(
        "row-059 a partial overlap of the tail",
        then(data(seq=0, count=3), ACCEPTED),
        then(data(seq=2, count=2), OUT_OF_ORDER, expected_sequence=3),
        then(data(seq=1, count=2), STALE, expected_sequence=3),
    ),
    case(
        "row-060 a resend from beyond the window of five",
        *(then(data(seq=n), ACCEPTED) for n in range(6)),
        then(data(seq=0), STALE, at=-1, expected_sequence=6),
        then(data(seq=1), DUPLICATE, at=1),
    ),
    case(
        "row-062 a follower takes duplicate sequences",
        then(data(seq=0, at=0), ACCEPTED, rules=REPLICATION),
        then(data(seq=0, at=1), ACCEPTED, rules=REPLICATION),
        remembered=(Remembered(first_sequence=0, last_sequence=0),),
    ),
    case("row-064 an old epoch on the leader", then(data(epoch=1), ACCEPTED), then(data(epoch=0), FENCED)),
    case(
        "row-065 a batch that compaction thinned out, offsets 23-26",
        then(data(seq=0, count=4, records=2, at=23), ACCEPTED, rules=REPLICATION, at=23),
        remembered=(Remembered(first_sequence=0, last_sequence=3),),
    ),
    case(
        "row-066 a batch that compaction emptied",
        then(data(seq=0, count=2, records=0, at=0), ACCEPTED, rules=REPLICATION),
        remembered=(Remembered(first_sequence=0, last_sequence=1),),
    ),
)

MARKERS = (
    case(
        "row-014 row-015 an ABORT of the next epoch clears the window, then that epoch begins at 0",
        then(data(seq=0, txn=True), ACCEPTED, txn=0),
        then(abort(epoch=1), ACCEPTED, rules=COORDINATOR, at=1, txn=0),
        then(data(epoch=1, seq=0, txn=True), ACCEPTED, at=2, txn=2),
        remembered=(
            Remembered(producer_epoch=1, first_sequence=0, last_sequence=0, current_txn_first_offset=2),
        ),
    ),
    case(
        "row-016 row-017 after a marker of the next epoch nothing continues at sequence 2",
        *_T,
        then(commit(epoch=1), ACCEPTED, rules=COORDINATOR, txn=0),
        then(data(epoch=1, seq=2, txn=True), OUT_OF_ORDER, expected_sequence=0),
        then(data(epoch=2, seq=2, txn=True), OUT_OF_ORDER, expected_sequence=0),
        remembered=(Remembered(producer_epoch=1, coordinator_epoch=0),),
    ),
    case(
        "row-018 a plain batch inside the producer's open transaction",
        *_T,
        then(data(seq=2), INVALID_TXN, at=-1),
        remembered=(Remembered(first_sequence=0, last_sequence=1, current_txn_first_offset=0),),
    ),
    *(
        case(
            f"row-040 a marker of epoch 3 while the producer is at 5, {rules.transaction_version}",
            then(data(epoch=5, txn=True), ACCEPTED),
            then(abort(epoch=3), FENCED, rules=rules, expected_epoch=5),
        )
        for rules in (COORDINATOR, COORDINATOR_TV2)
    ),
    case(
        "row-041 a marker of the data's epoch ends a transaction under TV0",
        *_T,
        then(commit(), ACCEPTED, rules=COORDINATOR, txn=0),
        remembered=(Remembered(first_sequence=0, last_sequence=1, coordinator_epoch=0),),
    ),
    case(
        "row-041 a marker of the data's epoch is fenced under TV2",
        *_T,
        then(commit(), FENCED, rules=COORDINATOR_TV2, expected_epoch=0),
        remembered=(Remembered(first_sequence=0, last_sequence=1, current_txn_first_offset=0),),
    ),
    case(
        "row-042 coordinator epochs 1, 1, 2, then 1 again",
        then(commit(coord=1), ACCEPTED, rules=COORDINATOR),
        then(commit(coord=1), ACCEPTED, rules=COORDINATOR),
        then(commit(coord=2), ACCEPTED, rules=COORDINATOR),
        then(commit(coord=1), COORDINATOR_FENCED, rules=COORDINATOR),
        remembered=(Remembered(coordinator_epoch=2),),
    ),
    case(
        "row-045 an empty control batch leaves an entry without epoch and no transaction",
        *_Z,
        remembered=(Remembered(producer_epoch=-1, coordinator_epoch=-1),),
    ),
    case(
        "row-085 a zombie coordinator is fenced after its successor, with data and without",
        then(data(seq=0, txn=True), ACCEPTED),
        then(commit(coord=1), ACCEPTED, rules=COORDINATOR, txn=0),
        then(commit(coord=2), ACCEPTED, rules=COORDINATOR, txn=-1),
        then(abort(coord=1), COORDINATOR_FENCED, rules=COORDINATOR),
        then(data(seq=1, txn=True), ACCEPTED),
        then(abort(coord=1), COORDINATOR_FENCED, rules=COORDINATOR),
    ),
    case(
        "a captured marker may keep the data's epoch: its transaction's version is not known",
        *_T,
        then(commit(), ACCEPTED, rules=CAPTURED, at=2, txn=0),
        then(data(epoch=1, seq=1, txn=True), OUT_OF_ORDER, rules=CAPTURED, expected_sequence=0),
    ),
    case(
        "row-086 a TV2 marker carries the next epoch",
        *_T,
        then(commit(epoch=1), ACCEPTED, rules=COORDINATOR_TV2, txn=0),
        remembered=(Remembered(producer_epoch=1),),
    ),
    case(
        "row-108 replicated data of a lower epoch lowers the entry and restarts its window",
        then(data(epoch=5, seq=0, at=0), ACCEPTED, rules=REPLICATION),
        then(data(epoch=5, seq=1, at=1), ACCEPTED, rules=REPLICATION),
        then(data(epoch=3, seq=7, at=2), ACCEPTED, rules=REPLICATION),
        remembered=(Remembered(producer_epoch=3, first_sequence=7, last_sequence=7),),
    ),
    case(
        "row-108 a replicated marker of a lower epoch closes the transaction and lowers the entry",
        then(data(epoch=5, seq=0, txn=True, at=0), ACCEPTED, rules=REPLICATION),
        then(abort(epoch=3, at=1), ACCEPTED, rules=REPLICATION, txn=0),
        remembered=(Remembered(producer_epoch=3),),
    ),
    case(
        "row-109 a client's epoch bump inside an open transaction keeps its start",
        *_T,
        then(data(epoch=1, seq=0, txn=True), ACCEPTED, at=2, txn=0),
        remembered=(
            Remembered(producer_epoch=1, first_sequence=0, last_sequence=0, current_txn_first_offset=0),
        ),
    ),
    case(
        "row-110 a TV2 marker that comes twice is written again and closes nothing",
        *_T,
        then(commit(epoch=1), ACCEPTED, rules=COORDINATOR_TV2, at=2, txn=0),
        then(commit(epoch=1), ACCEPTED, rules=COORDINATOR_TV2, at=3, txn=-1),
    ),
    case(
        "row-111 at epoch 32767 a marker of the same epoch ends the transaction",
        then(data(epoch=32767, seq=0, txn=True), ACCEPTED),
        then(abort(epoch=32767), ACCEPTED, rules=COORDINATOR_TV2, at=1, txn=0),
        remembered=(Remembered(producer_epoch=32767, first_sequence=0, last_sequence=0),),
    ),
)

DATA_DECISIONS = (
    case("facts §2.9 N: any epoch, any sequence", then(data(epoch=9, seq=77), ACCEPTED, at=0)),
    case("facts §2.9 N: in a transaction", then(data(seq=77, txn=True), ACCEPTED, at=0, txn=0)),
    case("facts §2.9 Z: any epoch, any sequence", *_Z, then(data(epoch=3, seq=7), ACCEPTED, at=1)),
    case(
        "facts §2.9 N: a TV2 transaction must begin at 0",
        then(data(seq=4, txn=True), OUT_OF_ORDER, rules=CLIENT_TV2, expected_sequence=0),
        then(data(seq=0, txn=True), ACCEPTED, rules=CLIENT_TV2, at=0),
    ),
    case(
        "facts §2.9 N: outside transactions a TV2 client may begin anywhere",
        then(data(seq=4), ACCEPTED, rules=CLIENT_TV2, at=0),
    ),
    case(
        "facts §2.9 M: the same epoch begins at 0", *_M, then(data(epoch=2, seq=0, txn=True), ACCEPTED, txn=1)
    ),
    case("facts §2.9 M: a newer epoch begins at 0", *_M, then(data(epoch=3, seq=0), ACCEPTED, at=1)),
    case("facts §2.9 M: a newer epoch elsewhere", *_M, then(data(epoch=3, seq=1), OUT_OF_ORDER)),
    case("facts §2.9 B: an exact resend", *_B, then(data(seq=0), DUPLICATE, at=0)),
    case("facts §2.9 T: an exact resend", *_T, then(data(seq=0, txn=True), DUPLICATE, at=0)),
    case("facts §2.9 B: a transaction begins", *_B, then(data(seq=2, txn=True), ACCEPTED, at=2, txn=2)),
    case(
        "facts §2.9 B: a newer epoch forgets the window",
        *_B,
        then(data(epoch=1, seq=0), ACCEPTED, at=2),
        then(data(epoch=1, seq=0), DUPLICATE, at=2),
        remembered=(Remembered(producer_epoch=1, first_sequence=0, last_sequence=0),),
    ),
    case("facts §2.9 B: a newer epoch elsewhere", *_B, then(data(epoch=1, seq=2), OUT_OF_ORDER)),
    case("facts §2.9 T: a newer epoch elsewhere", *_T, then(data(epoch=1, seq=2, txn=True), OUT_OF_ORDER)),
    case("facts §2.9 T: the transaction continues", *_T, then(data(seq=2, txn=True), ACCEPTED, at=2, txn=0)),
    case(
        "facts §2.9 T: an older epoch", then(data(epoch=1, txn=True), ACCEPTED), then(data(txn=True), FENCED)
    ),
    case("facts §2.9 T: a newer epoch without transaction", *_T, then(data(epoch=1, seq=0), INVALID_TXN)),
    case(
        "facts §2.9 replicated plain batch inside an open transaction",
        then(data(seq=0, txn=True, at=0), ACCEPTED, rules=REPLICATION),
        then(data(seq=1, at=1), INVALID_TXN, rules=REPLICATION),
        then(data(seq=1, at=1), ACCEPTED, rules=LENIENT, txn=-1),
        remembered=(Remembered(first_sequence=0, last_sequence=1, current_txn_first_offset=0),),
    ),
    case(
        "facts §2.9 coordinator data obeys epochs and transactions but no sequence",
        then(data(epoch=1, seq=0, txn=True), ACCEPTED, rules=COORDINATOR),
        then(data(epoch=1, seq=0, txn=True), ACCEPTED, rules=COORDINATOR, at=1),
        then(data(epoch=0, seq=1, txn=True), FENCED, rules=COORDINATOR),
        then(data(epoch=1, seq=1), INVALID_TXN, rules=COORDINATOR),
    ),
    case(
        "facts §2.9 without a producer id everything is taken",
        then(data(pid=-1, epoch=-1, seq=-1), ACCEPTED, at=0),
        then(data(pid=-1, epoch=-1, seq=-1), ACCEPTED, at=1),
        then(data(pid=-1, epoch=3, seq=5), ACCEPTED, at=2),
    ),
)

MARKER_DECISIONS = (
    *(
        case(
            f"facts §2.9 {state}: a marker of an older epoch, {rules.transaction_version}",
            *steps,
            then(commit(epoch=0), FENCED, rules=rules, expected_epoch=2),
        )
        for rules in (COORDINATOR, COORDINATOR_TV1, COORDINATOR_TV2)
        for state, steps in (("M", _M), ("T", (then(data(epoch=2, txn=True), ACCEPTED),)))
    ),
    case(
        "facts §2.9 B: a repeated marker under TV1 changes nothing",
        *_B,
        then(commit(), ACCEPTED, rules=COORDINATOR_TV1, at=2, txn=-1),
        remembered=(Remembered(first_sequence=0, last_sequence=1, coordinator_epoch=0),),
    ),
    case(
        "facts §2.9 B: a marker of a newer epoch forgets the window",
        *_B,
        then(commit(epoch=4), ACCEPTED, rules=COORDINATOR_TV1),
        remembered=(Remembered(producer_epoch=4),),
    ),
    case(
        "facts §2.9 replicated marker of an older epoch",
        *_M,
        then(commit(epoch=0, coord=7, at=1), ACCEPTED, rules=REPLICATION),
        remembered=(Remembered(producer_epoch=0, coordinator_epoch=7),),
    ),
    case(
        "facts §2.9 replicated marker of an older coordinator",
        then(commit(coord=7, at=0), ACCEPTED, rules=REPLICATION),
        then(commit(coord=3, at=1), ACCEPTED, rules=REPLICATION),
        remembered=(Remembered(coordinator_epoch=3),),
    ),
    case(
        "facts §2.8 a transaction closed by a marker among a client's batches",
        then(data(seq=0, txn=True), ACCEPTED, rules=CLIENT_TV2, txn=0),
        then(commit(epoch=1), ACCEPTED, rules=CLIENT_TV2, at=1, txn=0),
        then(data(epoch=1, seq=0, txn=True), ACCEPTED, rules=CLIENT_TV2, at=2, txn=2),
    ),
)

SHAPES = (
    case(
        "broker: sequences of a cached range but another length",
        then(data(seq=0, count=3), ACCEPTED),
        then(data(seq=3, count=3), ACCEPTED, at=3),
        then(data(seq=3, count=2), STALE),
        then(data(seq=3, count=4), OUT_OF_ORDER),
        then(data(seq=4, count=2), STALE),
        then(data(seq=0, count=6), STALE),
        then(data(seq=5, count=2), OUT_OF_ORDER),
        then(data(seq=1), STALE),
        then(data(seq=0, count=3), DUPLICATE, at=0),
        then(data(seq=6), ACCEPTED, at=6),
    ),
    case(
        "broker: around the wrap",
        then(data(seq=MAX - 1, count=4), ACCEPTED, at=0),
        then(data(seq=MAX - 1, count=4), DUPLICATE, at=0),
        then(data(seq=2), ACCEPTED, at=4),
        then(data(seq=1), STALE),
        then(data(seq=0), STALE),
        then(data(seq=MAX), STALE),
        then(data(seq=MAX - 1, count=3), STALE),
        then(data(seq=4), OUT_OF_ORDER, expected_sequence=3),
    ),
    case(
        "broker: a producer epoch of -1",
        then(data(epoch=-1, seq=0), ACCEPTED, at=0),
        then(data(epoch=-1, seq=0), DUPLICATE, at=0),
        then(data(epoch=-1, seq=7), ACCEPTED, at=1),
        then(data(epoch=0, seq=3), ACCEPTED, at=2),
        then(data(epoch=0, seq=0), STALE),
        then(data(epoch=-1, seq=0), FENCED),
    ),
    case(
        "broker: a refused batch leaves no trace",
        then(data(seq=0), ACCEPTED),
        then(data(epoch=1, seq=5), OUT_OF_ORDER),
        then(data(seq=1), ACCEPTED, at=1),
    ),
    case(
        "broker: windows are per producer",
        then(data(pid=1, seq=0), ACCEPTED, at=0),
        *(then(data(pid=2, seq=n), ACCEPTED) for n in range(7)),
        then(data(pid=1, seq=0), DUPLICATE, at=0),
        then(data(pid=2, seq=0), STALE),
    ),
    case(
        "row-120 row-121 counts that contradict each other, by the header alone",
        then(data(count=2, records=0), INVALID_RECORD, at=-1),
        then(data(count=3, records=1), INVALID_RECORD),
        then(data(count=0, records=0), INVALID_RECORD),
        then(data(seq=-1), INVALID_RECORD),
        then(data(at=7), INVALID_RECORD),
        then(data(pid=-1, count=2, records=0), INVALID_RECORD),
        then(data(seq=0), ACCEPTED, at=0),
    ),
)

CASES = SEQUENCES + MARKERS + DATA_DECISIONS + MARKER_DECISIONS + SHAPES
