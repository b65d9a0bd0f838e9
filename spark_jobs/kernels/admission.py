"""The admission fold over the header columns of one partition: the twin of `protocol.admission.fold`.

Call it with consecutive chunks of one partition and the same `ProducerTable`: memory is that of a chunk and
of the producers. `decide` is the only compiled routine that decides a batch: `parking` calls it too.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from spark_jobs.kernels.compile import helper, inlined, kernel
from spark_jobs.kernels.decisions import BatchColumns, DecisionColumns, allocate_decisions
from spark_jobs.kernels.producers import (
    NO_ROW,
    ProducerTable,
    Rows,
    Slots,
    begin_row,
    find_row,
    insert_slot,
    prefetch_producers,
)
from spark_jobs.kernels.rules import (
    ACCEPTED,
    CLIENT,
    COORDINATOR,
    DUPLICATE,
    INVALID_RECORD,
    NO_BATCH,
    REPLICATION,
    Conditions,
    apply_control,
    apply_data,
    conditions_of,
    expected_sequence,
    find_duplicate,
    is_valid_client_header,
    judge_control,
    judge_data,
    last_sequence_of,
)
from spark_jobs.protocol.decision import Rules
from spark_jobs.protocol.producer_state import NO_OFFSET
from spark_jobs.protocol.record_batch import CONTROL_FLAG, NO_PRODUCER_ID, NO_SEQUENCE, NO_TIMESTAMP

_MANY_PRODUCERS = 4096
"""More do not fit into the nearest caches."""
_PRODUCERS, _END_OFFSET = 0, 1
"""What `Known.counts` holds."""


class Known(NamedTuple):
    """The partition's producers while a kernel works on them; `counts` are producers, and the end offset."""

    rows: Rows
    slots: Slots
    counts: npt.NDArray[np.int64]


def known_of(producers: ProducerTable) -> Known:
    """The table as kernels see it; `store` keeps what they counted."""
    counts = np.array([producers.count, producers.end_offset], dtype=np.int64)
    return Known(rows=producers.room, slots=producers.slots, counts=counts)


def store(producers: ProducerTable, known: Known) -> None:
    """Write what a kernel counted back to the table."""
    producers.count, producers.end_offset = (int(count) for count in known.counts)


@helper
def is_full(known: Known) -> bool:
    """Whether an unknown producer would find no row."""
    return bool(known.counts[_PRODUCERS] >= known.rows.size)


@inlined
def row_of(known: Known, producer_id: int) -> tuple[int, bool]:
    """(row of the producer, whether it is unknown); an unknown one is judged in the next free row.

    That row becomes its own if it is accepted. If there is none, the row is `known.rows.size`.
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
    """(verdict, the sequence that was missing or `NO_SEQUENCE`, the remembered original or `NO_BATCH`)."""
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
    known: Known,
    row: int,
    is_new: bool,
    batches: BatchColumns,
    index: int,
    conditions: Conditions,
    decisions: DecisionColumns,
) -> int:
    """The verdict on a batch, which is written to `decisions` and, if it is accepted, to its producer."""
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
    batches: BatchColumns, start: int, known: Known, conditions: Conditions, decisions: DecisionColumns
) -> int:
    """Batches judged; stops before one whose producer finds no room."""
    for index in range(start, batches.producer_id.size):
        if known.counts[_PRODUCERS] > _MANY_PRODUCERS:
            prefetch_producers(batches.producer_id, index, known.rows, known.slots)
        row, is_new = row_of(known, batches.producer_id[index])
        if row == known.rows.size:
            return index
        decide(known, row, is_new, batches, index, conditions, decisions)
    return batches.producer_id.size


def fold(batches: BatchColumns, producers: ProducerTable, *, rules: Rules) -> DecisionColumns:
    """A decision per batch, in arrival order; `producers` is afterwards as the batches leave it."""
    decisions, judged = allocate_decisions(batches.rows), 0
    while True:
        known = known_of(producers)
        judged = _fold(batches, judged, known, conditions_of(rules), decisions)
        store(producers, known)
        if judged == batches.rows:
            return decisions
        producers.grow()
