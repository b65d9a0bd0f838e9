"""The admission fold over the header columns of one partition: the twin of `protocol.admission.fold`.

Call it with consecutive chunks of one partition and the same `ProducerTable`: memory is that of a chunk and
of the producers.
"""

from spark_jobs.kernels.compile import kernel
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
    ORIGINS,
    REPLICATION,
    apply_control,
    apply_data,
    expected_sequence,
    find_duplicate,
    is_valid_client_header,
    judge_control,
    judge_data,
    levels_of,
)
from spark_jobs.kernels.sequences import increment_sequence
from spark_jobs.protocol.decision import Rules
from spark_jobs.protocol.producer_state import NO_OFFSET
from spark_jobs.protocol.record_batch import CONTROL_FLAG, NO_PRODUCER_ID, NO_SEQUENCE, NO_TIMESTAMP

_MANY_PRODUCERS = 4096
"""More do not fit into the nearest caches."""


@kernel
def _fold(
    batches: BatchColumns,
    start: int,
    rows: Rows,
    slots: Slots,
    count: int,
    end_offset: int,
    origin: int,
    levels: int,
    enforce: bool,
    decisions: DecisionColumns,
) -> tuple[int, int, int]:
    """(batches judged, producers, end offset); stops before a batch whose producer finds no room."""
    for index in range(start, batches.producer_id.size):
        if count > _MANY_PRODUCERS:
            prefetch_producers(batches.producer_id, index, rows, slots)
        producer_id = batches.producer_id[index]
        is_control = batches.attributes[index] & CONTROL_FLAG != 0
        judged_as = COORDINATOR if origin == CLIENT and is_control else origin
        is_valid = judged_as != CLIENT or is_valid_client_header(batches, index)
        has_producer = producer_id > NO_PRODUCER_ID
        row = find_row(producer_id, slots) if has_producer else NO_ROW
        is_new = row == NO_ROW
        if is_new:
            # An unknown producer is judged in the next free row, which becomes its own if it is accepted.
            if count == rows.size:
                return index, count, end_offset
            row = count
            begin_row(rows[row], producer_id)
        producer = rows[row]
        epoch, first = batches.producer_epoch[index], batches.base_sequence[index]
        delta = batches.last_offset_delta[index]
        last = NO_SEQUENCE if first == NO_SEQUENCE else increment_sequence(first, delta)
        offset = batches.base_offset[index] if origin == REPLICATION else end_offset
        last_offset, log_append_time, txn_first_offset = offset + delta, NO_TIMESTAMP, NO_OFFSET
        expected_epoch = producer.producer_epoch
        expected = expected_sequence(producer, epoch, is_control)
        verdict, missing, original = ACCEPTED, NO_SEQUENCE, NO_BATCH

        if not is_valid:
            verdict = INVALID_RECORD
        elif has_producer:
            if judged_as == CLIENT:
                original = find_duplicate(producer, epoch, first, last)
            if original != NO_BATCH:
                verdict = DUPLICATE
                last_offset = producer.last_offset[original]
                offset = last_offset - producer.offset_delta[original]
                log_append_time = producer.timestamp[original]
            elif is_control:
                verdict = judge_control(producer, batches, index, judged_as, levels)
            else:
                verdict, missing = judge_data(producer, batches, index, last, judged_as, levels, enforce)
        if verdict == ACCEPTED:
            end_offset = last_offset + 1
            if has_producer:
                if is_control:
                    txn_first_offset = apply_control(producer, batches, index)
                else:
                    txn_first_offset = apply_data(producer, batches, index, last, offset)
                if is_new:
                    insert_slot(producer_id, row, slots)
                    count += 1
        elif verdict != DUPLICATE:
            offset, last_offset = NO_OFFSET, NO_OFFSET

        decisions.verdict[index] = verdict
        decisions.base_offset[index] = offset
        decisions.last_offset[index] = last_offset
        decisions.expected_sequence[index] = missing if missing != NO_SEQUENCE else expected
        decisions.expected_epoch[index] = expected_epoch
        decisions.log_append_time[index] = log_append_time
        decisions.txn_first_offset[index] = txn_first_offset
    return batches.producer_id.size, count, end_offset


def fold(batches: BatchColumns, producers: ProducerTable, *, rules: Rules) -> DecisionColumns:
    """A decision per batch, in arrival order; `producers` is afterwards as the batches leave it."""
    decisions, judged = allocate_decisions(batches.rows), 0
    while True:
        judged, producers.count, producers.end_offset = _fold(
            batches,
            judged,
            producers.room,
            producers.slots,
            producers.count,
            producers.end_offset,
            ORIGINS.index(rules.origin),
            levels_of(rules),
            rules.enforce_open_transaction,
            decisions,
        )
        if judged == batches.rows:
            return decisions
        producers.grow()
