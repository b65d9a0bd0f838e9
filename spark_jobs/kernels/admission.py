"""The admission fold over the header columns of one partition: the twin of `kafka.producers.admission.fold`.

Call `fold` with consecutive chunks of one partition and the same `ProducerTable`: it needs memory for one
chunk and the producers. `decide` is the only compiled routine that decides a batch: `parking` calls it too.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from spark_jobs.kafka.formats.control_record import ControlType
from spark_jobs.kafka.formats.record_batch import (
    CONTROL_FLAG,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TRANSACTIONAL_FLAG,
)
from spark_jobs.kafka.producers import sequence
from spark_jobs.kafka.producers.admission import MAX_PRODUCER_EPOCH
from spark_jobs.kafka.producers.producer_state import NO_OFFSET, AppendOrigin, TransactionVersion
from spark_jobs.kafka.producers.verdict import VERDICTS, Rules, Verdict
from spark_jobs.kernels.columns import HeaderColumns
from spark_jobs.kernels.compile import helper, inlined, kernel
from spark_jobs.kernels.memory import read_only
from spark_jobs.kernels.producers import (
    NO_ROW,
    RETAINED,
    ProducerTable,
    Rows,
    Slots,
    begin_row,
    find_row,
    insert_slot,
    prefetch_producers,
)


class BatchColumns(NamedTuple):
    """Input of the rules: header fields, and the content of a control batch's first record.

    A `control_type` of 0 or 1 is a marker; a control batch with any other has none.
    """

    base_offset: npt.NDArray[np.int64]
    attributes: npt.NDArray[np.int16]
    last_offset_delta: npt.NDArray[np.int32]
    max_timestamp: npt.NDArray[np.int64]
    producer_id: npt.NDArray[np.int64]
    producer_epoch: npt.NDArray[np.int16]
    base_sequence: npt.NDArray[np.int32]
    record_count: npt.NDArray[np.int32]
    control_type: npt.NDArray[np.int16]
    coordinator_epoch: npt.NDArray[np.int32]

    @property
    def rows(self) -> int:
        return self.producer_id.size


class DecisionColumns(NamedTuple):
    """`kafka.producers.verdict.Decision` as columns; the found values are in the batch's own columns.

    `verdict` is the position in `VERDICTS`. An accepted marker with a `txn_first_offset` completed the
    transaction that began there; its own offset, the last of the transaction, is `base_offset`.
    """

    verdict: npt.NDArray[np.int8]
    base_offset: npt.NDArray[np.int64]
    last_offset: npt.NDArray[np.int64]
    expected_sequence: npt.NDArray[np.int32]
    expected_epoch: npt.NDArray[np.int16]
    log_append_time: npt.NDArray[np.int64]
    txn_first_offset: npt.NDArray[np.int64]


_BATCH_TYPES: tuple[npt.DTypeLike, ...] = (
    np.int64, np.int16, np.int32, np.int64, np.int64, np.int16, np.int32, np.int32, np.int16, np.int32,
)  # fmt: skip
_DECISION_TYPES: tuple[npt.DTypeLike, ...] = (
    np.int8, np.int64, np.int64, np.int32, np.int16, np.int64, np.int64,
)  # fmt: skip


def batch_columns(arrays: Iterable[npt.ArrayLike]) -> BatchColumns:
    """Arrays in the order of the fields, copied only if they are of another type: kernels see one type."""
    return BatchColumns._make(map(read_only, arrays, _BATCH_TYPES))


def batches_of(headers: HeaderColumns) -> BatchColumns:
    """The columns of a scan that the rules need."""
    return batch_columns(getattr(headers, name) for name in BatchColumns._fields)


def allocate_decisions(rows: int) -> DecisionColumns:
    """Room for `rows` decisions; the values are undefined until a kernel writes them."""
    return DecisionColumns._make(np.empty(rows, dtype=kind) for kind in _DECISION_TYPES)


# Sequence arithmetic (facts §2.2): the functions of `kafka.producers.sequence`, compiled.
increment_sequence = helper(sequence.increment_sequence)
decrement_sequence = helper(sequence.decrement_sequence)
in_sequence = helper(sequence.in_sequence)
is_at_or_before = helper(sequence.is_at_or_before)


_DATA_TV2, _MARKER_TV2 = 1, 2

ACCEPTED = VERDICTS.index(Verdict.ACCEPTED)
DUPLICATE = VERDICTS.index(Verdict.DUPLICATE)
INVALID_RECORD = VERDICTS.index(Verdict.INVALID_RECORD)
_STALE_DUPLICATE = VERDICTS.index(Verdict.STALE_DUPLICATE)
OUT_OF_ORDER = VERDICTS.index(Verdict.OUT_OF_ORDER)
_FENCED = VERDICTS.index(Verdict.FENCED)
_COORDINATOR_FENCED = VERDICTS.index(Verdict.COORDINATOR_FENCED)
_INVALID_TRANSACTION_STATE = VERDICTS.index(Verdict.INVALID_TRANSACTION_STATE)

ORIGINS = tuple(AppendOrigin)
CLIENT = ORIGINS.index(AppendOrigin.CLIENT)
COORDINATOR = ORIGINS.index(AppendOrigin.COORDINATOR)
REPLICATION = ORIGINS.index(AppendOrigin.REPLICATION)

NO_BATCH = -1
_ABORT, _COMMIT = int(ControlType.ABORT), int(ControlType.COMMIT)


class Conditions(NamedTuple):
    """`Rules` as numbers; `levels` has a bit each for data and markers under TV2."""

    origin: int
    levels: int
    enforce_open_transaction: bool


def conditions_of(rules: Rules) -> Conditions:
    """`rules` for kernels."""
    data = _DATA_TV2 if rules.transaction_version is TransactionVersion.TV2 else 0
    markers = _MARKER_TV2 if rules.version_of_markers is TransactionVersion.TV2 else 0
    return Conditions(
        origin=ORIGINS.index(rules.origin),
        levels=data | markers,
        enforce_open_transaction=rules.enforce_open_transaction,
    )


@helper
def is_valid_client_header(batches: BatchColumns, index: int) -> bool:
    """`kafka.producers.admission.check_client_header` of a batch that is not a control batch."""
    if batches.base_offset[index] != 0:
        return False
    count = batches.record_count[index]
    if count <= 0 or count != batches.last_offset_delta[index] + 1:
        return False
    return bool(batches.producer_id[index] <= NO_PRODUCER_ID or batches.base_sequence[index] >= 0)


@helper
def last_sequence_of(batches: BatchColumns, index: int) -> int:
    """The batch's last sequence, or -1 if it has none."""
    first = batches.base_sequence[index]
    if first == NO_SEQUENCE:
        return NO_SEQUENCE
    return int(increment_sequence(first, batches.last_offset_delta[index]))


@helper
def last_sequence(producer: Any) -> int:
    """The newest remembered sequence, or -1."""
    if producer.batches == 0:
        return NO_SEQUENCE
    return int(producer.last_sequence[(producer.oldest + producer.batches - 1) % RETAINED])


@helper
def expected_sequence(producer: Any, epoch: int, is_control: bool) -> int:
    """The sequence that would be next; -1 for markers, unknown producers and older epochs."""
    current = producer.producer_epoch
    if is_control or current == NO_PRODUCER_EPOCH or epoch < current:
        return NO_SEQUENCE
    return 0 if epoch > current else increment_sequence(last_sequence(producer), 1)


@helper
def find_duplicate(producer: Any, epoch: int, first: int, last: int) -> int:
    """Index in the ring of the remembered batch with exactly these sequences, or `NO_BATCH`."""
    if producer.producer_epoch != epoch:
        return NO_BATCH
    for age in range(producer.batches):
        index = (producer.oldest + age) % RETAINED
        remembered = producer.last_sequence[index]
        if remembered == last and decrement_sequence(remembered, producer.offset_delta[index]) == first:
            return int(index)
    return NO_BATCH


@helper
def _missing_sequence(producer: Any, epoch: int, first: int, begins_under_tv2: bool) -> int:
    """The sequence that was expected instead of `first`, or `NO_SEQUENCE` if `first` is valid."""
    if begins_under_tv2 and first != 0 and producer.batches == 0:
        return 0
    if epoch != producer.producer_epoch:
        return NO_SEQUENCE if first == 0 or producer.producer_epoch == NO_PRODUCER_EPOCH else 0
    last = last_sequence(producer)
    if producer.producer_epoch == NO_PRODUCER_EPOCH or in_sequence(last, first):
        return NO_SEQUENCE
    return increment_sequence(last, 1)


@helper
def _sequence_verdict(producer: Any, epoch: int, first: int, last: int) -> int:
    newest = last_sequence(producer)
    if producer.producer_epoch != epoch or newest == NO_SEQUENCE:
        return OUT_OF_ORDER
    behind = is_at_or_before(last, newest) and is_at_or_before(first, last) and is_at_or_before(first, newest)
    return _STALE_DUPLICATE if behind else OUT_OF_ORDER


@helper
def _refuses_marker(producer: Any, epoch: int, coordinator_epoch: int, tv2: bool) -> int:
    """The verdict that rejects a marker, or `ACCEPTED`."""
    stays = epoch == producer.producer_epoch and tv2
    if stays and producer.txn_first_offset != NO_OFFSET and epoch != MAX_PRODUCER_EPOCH:
        return _FENCED
    if epoch < producer.producer_epoch:
        return _FENCED
    return _COORDINATOR_FENCED if coordinator_epoch < producer.coordinator_epoch else ACCEPTED


@helper
def _remember(producer: Any, last_sequence: int, last_offset: int, offset_delta: int, timestamp: int) -> None:
    """Writes the newest batch into the ring, over the oldest if there are five."""
    index = (producer.oldest + producer.batches) % RETAINED
    if producer.batches == RETAINED:
        producer.oldest = (producer.oldest + 1) % RETAINED
    else:
        producer.batches += 1
    producer.last_sequence[index] = last_sequence
    producer.last_offset[index] = last_offset
    producer.offset_delta[index] = offset_delta
    producer.timestamp[index] = timestamp


@helper
def _take_epoch(producer: Any, epoch: int) -> None:
    if producer.producer_epoch != epoch:
        producer.producer_epoch = epoch
        producer.batches = 0
        producer.oldest = 0


@helper
def judge_data(
    producer: Any, batches: BatchColumns, index: int, last: int, origin: int, levels: int, enforce: bool
) -> tuple[int, int]:
    """(verdict, the expected sequence or `NO_SEQUENCE`) of a data batch that is no duplicate."""
    epoch, first = batches.producer_epoch[index], batches.base_sequence[index]
    is_transactional = batches.attributes[index] & TRANSACTIONAL_FLAG != 0
    is_open = producer.txn_first_offset != NO_OFFSET
    if origin != REPLICATION and epoch < producer.producer_epoch:
        return _FENCED, NO_SEQUENCE
    if origin == CLIENT:
        begins = is_transactional and not (is_open and producer.producer_epoch == epoch)
        missing = _missing_sequence(producer, epoch, first, begins and levels & _DATA_TV2 != 0)
        if missing != NO_SEQUENCE:
            return _sequence_verdict(producer, epoch, first, last), missing
    if is_open and not is_transactional and enforce:
        return _INVALID_TRANSACTION_STATE, NO_SEQUENCE
    return ACCEPTED, NO_SEQUENCE


@helper
def judge_control(producer: Any, batches: BatchColumns, index: int, origin: int, levels: int) -> int:
    """The verdict on a control batch; without a marker in it, it may only be empty."""
    epoch = batches.producer_epoch[index]
    is_transactional = batches.attributes[index] & TRANSACTIONAL_FLAG != 0
    if origin != REPLICATION and is_transactional and epoch < producer.producer_epoch:
        return _FENCED
    if not _ABORT <= batches.control_type[index] <= _COMMIT:
        return INVALID_RECORD if batches.record_count[index] > 0 else ACCEPTED
    if origin == REPLICATION:
        return ACCEPTED
    return _refuses_marker(producer, epoch, batches.coordinator_epoch[index], levels & _MARKER_TV2 != 0)


@helper
def apply_data(producer: Any, batches: BatchColumns, index: int, last: int, offset: int) -> int:
    """Remembers an accepted data batch; returns the first offset of the transaction that it belongs to."""
    delta, timestamp = batches.last_offset_delta[index], batches.max_timestamp[index]
    _take_epoch(producer, batches.producer_epoch[index])
    _remember(producer, last, offset + delta, delta, timestamp)
    producer.last_timestamp = timestamp
    if batches.attributes[index] & TRANSACTIONAL_FLAG == 0:
        return NO_OFFSET
    if producer.txn_first_offset == NO_OFFSET:
        producer.txn_first_offset = offset
    return int(producer.txn_first_offset)


@helper
def apply_control(producer: Any, batches: BatchColumns, index: int) -> int:
    """Applies an accepted marker; returns the first offset of the transaction that it completes."""
    if not _ABORT <= batches.control_type[index] <= _COMMIT:
        return NO_OFFSET
    first_offset = int(producer.txn_first_offset)
    _take_epoch(producer, batches.producer_epoch[index])
    producer.coordinator_epoch = batches.coordinator_epoch[index]
    producer.last_timestamp = batches.max_timestamp[index]
    producer.txn_first_offset = NO_OFFSET
    return first_offset


_MANY_PRODUCERS = 4096
"""More do not fit into the first-level caches."""
_PRODUCERS, _END_OFFSET = 0, 1
"""Indexes into `KernelProducers.counts`."""


class KernelProducers(NamedTuple):
    """The partition's producers while a kernel runs; `counts` holds their number and the end offset."""

    rows: Rows
    slots: Slots
    counts: npt.NDArray[np.int64]


def known_of(producers: ProducerTable) -> KernelProducers:
    """The table as kernels see it; `store` writes the counts back."""
    counts = np.array([producers.count, producers.end_offset], dtype=np.int64)
    return KernelProducers(rows=producers.room, slots=producers.slots, counts=counts)


def store(producers: ProducerTable, known: KernelProducers) -> None:
    """Writes the counts of a kernel back to the table."""
    producers.count, producers.end_offset = (int(count) for count in known.counts)


@helper
def is_full(known: KernelProducers) -> bool:
    """Whether there is no free row for an unknown producer."""
    return bool(known.counts[_PRODUCERS] >= known.rows.size)


@inlined
def row_of(known: KernelProducers, producer_id: int) -> tuple[int, bool]:
    """(row of the producer, whether it is unknown); an unknown one gets the next free row.

    It keeps that row if its batch is accepted. If there is none, the row is `known.rows.size`.
    """
    row = find_row(producer_id, known.slots) if producer_id > NO_PRODUCER_ID else NO_ROW
    if row != NO_ROW:
        return row, False
    row = known.counts[_PRODUCERS]
    if row < known.rows.size:
        begin_row(known.rows[row], producer_id)
    return row, True


@inlined
def judge(producer: Any, batches: BatchColumns, index: int, conditions: Conditions) -> tuple[int, int, int]:
    """(verdict, the expected sequence or `NO_SEQUENCE`, the remembered original or `NO_BATCH`)."""
    is_control = batches.attributes[index] & CONTROL_FLAG != 0
    origin = COORDINATOR if conditions.origin == CLIENT and is_control else conditions.origin
    if origin == CLIENT and not is_valid_client_header(batches, index):
        return INVALID_RECORD, NO_SEQUENCE, NO_BATCH
    if batches.producer_id[index] <= NO_PRODUCER_ID:
        return ACCEPTED, NO_SEQUENCE, NO_BATCH
    if is_control:
        return judge_control(producer, batches, index, origin, conditions.levels), NO_SEQUENCE, NO_BATCH
    last = last_sequence_of(batches, index)
    if origin == CLIENT:
        epoch, first = batches.producer_epoch[index], batches.base_sequence[index]
        original = find_duplicate(producer, epoch, first, last)
        if original != NO_BATCH:
            return DUPLICATE, NO_SEQUENCE, original
    verdict, missing = judge_data(
        producer, batches, index, last, origin, conditions.levels, conditions.enforce_open_transaction
    )
    return verdict, missing, NO_BATCH


@inlined
def decide(
    known: KernelProducers,
    row: int,
    is_new: bool,
    batches: BatchColumns,
    index: int,
    conditions: Conditions,
    decisions: DecisionColumns,
) -> int:
    """Decides a batch: writes to `decisions` and, if it is accepted, to its producer; returns the verdict."""
    producer = known.rows[row]
    is_control = batches.attributes[index] & CONTROL_FLAG != 0
    expected_epoch = producer.producer_epoch
    expected = expected_sequence(producer, batches.producer_epoch[index], is_control)
    verdict, missing, original = judge(producer, batches, index, conditions)
    delta = batches.last_offset_delta[index]
    offset = known.counts[_END_OFFSET]
    if conditions.origin == REPLICATION:
        offset = batches.base_offset[index]
    last_offset, log_append_time, txn_first_offset = offset + delta, NO_TIMESTAMP, NO_OFFSET
    if verdict == DUPLICATE:
        last_offset = producer.last_offset[original]
        offset = last_offset - producer.offset_delta[original]
        log_append_time = producer.timestamp[original]
    elif verdict == ACCEPTED:
        known.counts[_END_OFFSET] = last_offset + 1
        producer_id = batches.producer_id[index]
        if producer_id > NO_PRODUCER_ID:
            if is_control:
                txn_first_offset = apply_control(producer, batches, index)
            else:
                txn_first_offset = apply_data(
                    producer, batches, index, last_sequence_of(batches, index), offset
                )
            if is_new:
                insert_slot(producer_id, row, known.slots)
                known.counts[_PRODUCERS] += 1
    else:
        offset, last_offset = NO_OFFSET, NO_OFFSET
    decisions.verdict[index] = verdict
    decisions.base_offset[index] = offset
    decisions.last_offset[index] = last_offset
    decisions.expected_sequence[index] = missing if missing != NO_SEQUENCE else expected
    decisions.expected_epoch[index] = expected_epoch
    decisions.log_append_time[index] = log_append_time
    decisions.txn_first_offset[index] = txn_first_offset
    return verdict


@kernel
def _fold(
    batches: BatchColumns,
    start: int,
    known: KernelProducers,
    conditions: Conditions,
    decisions: DecisionColumns,
) -> int:
    """Number of batches decided; stops before one for whose producer there is no row."""
    for index in range(start, batches.producer_id.size):
        if known.counts[_PRODUCERS] > _MANY_PRODUCERS:
            prefetch_producers(batches.producer_id, index, known.rows, known.slots)
        row, is_new = row_of(known, batches.producer_id[index])
        if row == known.rows.size:
            return index
        decide(known, row, is_new, batches, index, conditions, decisions)
    return batches.producer_id.size


def fold(batches: BatchColumns, producers: ProducerTable, *, rules: Rules) -> DecisionColumns:
    """A decision per batch, in arrival order; `producers` is updated in place."""
    decisions, judged = allocate_decisions(batches.rows), 0
    while True:
        known = known_of(producers)
        judged = _fold(batches, judged, known, conditions_of(rules), decisions)
        store(producers, known)
        if judged == batches.rows:
            return decisions
        producers.grow()
