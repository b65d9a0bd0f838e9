"""The accept/reject rules inside kernels, one batch against one producer's row (facts §2.4-2.9).

`protocol.admission` owns the rules; this is their compiled twin, name by name.
"""

from typing import Any, NamedTuple

from spark_jobs.kernels.compile import helper
from spark_jobs.kernels.decisions import BatchColumns
from spark_jobs.kernels.producers import RETAINED
from spark_jobs.kernels.sequences import decrement_sequence, in_sequence, increment_sequence, is_at_or_before
from spark_jobs.protocol.admission import MAX_PRODUCER_EPOCH
from spark_jobs.protocol.control_record import ControlType
from spark_jobs.protocol.decision import Rules
from spark_jobs.protocol.producer_state import NO_OFFSET, AppendOrigin, TransactionVersion
from spark_jobs.protocol.record_batch import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TRANSACTIONAL_FLAG,
)
from spark_jobs.protocol.verdict import VERDICTS, Verdict

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
    """`protocol.decision.Rules` as numbers; `levels` says which of data and markers are judged by TV2."""

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
    """`protocol.admission.check_client_header` of a batch that is not a control batch."""
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
    """The sequence that was expected instead of `first`, or `NO_SEQUENCE` if it may come."""
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
    """The verdict that refuses a marker, or `ACCEPTED`."""
    stays = epoch == producer.producer_epoch and tv2
    if stays and producer.txn_first_offset != NO_OFFSET and epoch != MAX_PRODUCER_EPOCH:
        return _FENCED
    if epoch < producer.producer_epoch:
        return _FENCED
    return _COORDINATOR_FENCED if coordinator_epoch < producer.coordinator_epoch else ACCEPTED


@helper
def _remember(producer: Any, last_sequence: int, last_offset: int, offset_delta: int, timestamp: int) -> None:
    """The newest batch into the ring, over the oldest if there are five."""
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
    """(verdict, the sequence that was missing or `NO_SEQUENCE`) of a data batch that is no duplicate."""
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
