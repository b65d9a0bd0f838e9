"""The accept/reject rules of a partition. This file owns them: nothing else decides on a batch.

Everything here is a pure function on frozen values: an entry and a batch header in, an outcome out. Outcomes
are `Decision`s, never exceptions, and no input is ever changed. The order of the checks is the broker's
(facts §2.3-2.9): duplicate, verification, epoch, sequence, open transaction, coordinator epoch.

Three ways in:

* `append_batch` is one batch within one append: what a broker's partition does (`producer_state_manager`).
* `admit` is one batch as an append of its own, against all producers of a partition.
* `fold` is a whole partition in arrival order. It is the reference that the compiled kernel equals, row by
  row: every field of every `Decision`, and the states that remain.
"""

from collections.abc import Iterable
from dataclasses import replace

from spark_jobs.kafka.errors import KafkaError
from spark_jobs.kafka.formats.control_record import ControlType, EndTransactionMarker
from spark_jobs.kafka.formats.record_batch import (
    MAGIC_V2,
    NO_PRODUCER_EPOCH,
    NO_SEQUENCE,
    Codec,
    RecordBatchHeader,
)
from spark_jobs.kafka.producers.producer_state import (
    NUM_BATCHES_TO_RETAIN,
    AppendOrigin,
    BatchMetadata,
    CompletedTxn,
    ProducerStateEntry,
    ProducerStates,
    TransactionVersion,
    TxnMetadata,
    VerificationStateEntry,
)
from spark_jobs.kafka.producers.sequence import in_sequence, increment_sequence, is_at_or_before
from spark_jobs.kafka.producers.verdict import (
    NO_GUARD,
    NO_VERIFICATION,
    Admission,
    BatchRow,
    Decision,
    ProducerAppendInfo,
    Rules,
    Verdict,
    Verification,
    accept,
    accept_plain,
    duplicate_of,
    refuse,
)

__all__ = [
    "NO_VERIFICATION",
    "Admission",
    "BatchRow",
    "Decision",
    "ProducerAppendInfo",
    "Rules",
    "Verification",
]
"""Names of `verdict` that callers of these rules need, exported here too."""

MAX_PRODUCER_EPOCH = 2**15 - 1


def prepare(entry: ProducerStateEntry | None, producer_id: int) -> ProducerAppendInfo:
    """The start of an append for one producer; an unknown one begins with an empty entry."""
    stored = ProducerStateEntry(producer_id=producer_id) if entry is None else entry
    return ProducerAppendInfo(stored=stored, updated=replace(stored, batches=()))


def merge(info: ProducerAppendInfo) -> ProducerStateEntry:
    """The entry after the append: new batches join the old ones unless the epoch has changed (facts §2.8)."""
    stored, updated = info.stored, info.updated
    same_epoch = updated.producer_epoch == stored.producer_epoch
    kept = stored.batches + updated.batches if same_epoch else updated.batches
    return replace(updated, batches=kept[-NUM_BATCHES_TO_RETAIN:])


def find_duplicate(entry: ProducerStateEntry | None, header: RecordBatchHeader) -> BatchMetadata | None:
    """The remembered batch of the same epoch with exactly these sequences, if there is one (facts §2.4)."""
    if entry is None or entry.producer_epoch != header.producer_epoch:
        return None
    first, last = header.base_sequence, header.last_sequence
    for batch in entry.batches:
        if batch.last_sequence == last and batch.first_sequence == first:
            return batch
    return None


def has_ongoing_transaction(entry: ProducerStateEntry | None, producer_epoch: int) -> bool:
    """Whether a transaction of exactly this epoch is open."""
    if entry is None or entry.current_txn_first_offset is None:
        return False
    return entry.producer_epoch == producer_epoch


def check_verification(
    entry: ProducerStateEntry, header: RecordBatchHeader, verification: Verification
) -> Verdict | None:
    """Why a batch may not open a transaction (facts §2.5); a stale epoch is checked first."""
    if not header.is_transactional or has_ongoing_transaction(entry, header.producer_epoch):
        return None
    if header.producer_epoch < entry.producer_epoch:
        return Verdict.FENCED
    if not header.is_control and not verification.satisfied:
        return Verdict.INVALID_TRANSACTION_STATE
    return None


def check_data_epoch(entry: ProducerStateEntry, producer_epoch: int) -> Verdict | None:
    """Data of an older epoch comes from a fenced producer (facts §2.6)."""
    return Verdict.FENCED if producer_epoch < entry.producer_epoch else None


def check_marker_epoch(
    entry: ProducerStateEntry, producer_epoch: int, transaction_version: TransactionVersion
) -> Verdict | None:
    """A TV2 marker must raise the epoch, unless nothing is open or the epoch cannot rise (facts §2.6)."""
    if producer_epoch != entry.producer_epoch or transaction_version is not TransactionVersion.TV2:
        return check_data_epoch(entry, producer_epoch)
    repeats = entry.current_txn_first_offset is None or producer_epoch == MAX_PRODUCER_EPOCH
    return None if repeats else Verdict.FENCED


def check_sequence(
    info: ProducerAppendInfo, header: RecordBatchHeader, verification: VerificationStateEntry | None = None
) -> int | None:
    """The sequence that was expected instead of the batch's first, or None if it is valid (facts §2.7)."""
    first = header.base_sequence
    if verification is not None:
        if verification.supports_epoch_bump and first != 0 and not info.stored.batches:
            return 0
        if first > verification.lowest_sequence:
            return verification.lowest_sequence
    if header.producer_epoch != info.updated.producer_epoch:
        anew = first == 0 or info.updated.producer_epoch == NO_PRODUCER_EPOCH
        return None if anew else 0
    last = info.last_sequence_of(header.producer_epoch)
    if info.stored.producer_epoch == NO_PRODUCER_EPOCH or in_sequence(last, first):
        return None
    return increment_sequence(last, 1)


def sequence_verdict(entry: ProducerStateEntry, header: RecordBatchHeader) -> Verdict:
    """The verdict on an unexpected sequence: all of it taken before (stale), or a gap before it."""
    if entry.producer_epoch != header.producer_epoch or entry.last_sequence == NO_SEQUENCE:
        return Verdict.OUT_OF_ORDER
    ends_behind = is_at_or_before(header.last_sequence, entry.last_sequence)
    begins_behind = is_at_or_before(header.base_sequence, header.last_sequence) and is_at_or_before(
        header.base_sequence, entry.last_sequence
    )
    return Verdict.STALE_DUPLICATE if ends_behind and begins_behind else Verdict.OUT_OF_ORDER


def check_client_header(header: RecordBatchHeader) -> str | None:
    """Why a client's batch is invalid by its header alone, None if it is not (facts §2.3, §2.11)."""
    if header.base_offset != 0:
        return f"base offset {header.base_offset} in a client's batch"
    if header.record_count <= 0 or header.record_count != header.last_offset_delta + 1:
        return f"{header.record_count} records for a last offset delta of {header.last_offset_delta}"
    if header.is_control:
        return "control batch from a client"
    if header.has_producer_id and header.base_sequence < 0:
        return f"base sequence {header.base_sequence} with a producer id"
    return None


def why_invalid(header: RecordBatchHeader, *, records_without_key: int) -> tuple[KafkaError, str]:
    """Kafka's error and the reason if a leader would reject a captured batch (facts §2.11).

    `records_without_key` is 0 where the topic is not compacted.
    """
    if header.magic < MAGIC_V2:
        problem: str | None = f"a message of magic {header.magic}, which producers can no longer send"
    elif header.is_control:
        problem = "a control batch, which only a coordinator may send"
    else:
        problem = check_client_header(header)
    if problem is None and records_without_key:
        problem = (
            f"{records_without_key} of {header.record_count} records without a key, in a compacted topic"
        )
    if problem is not None:
        return KafkaError.INVALID_RECORD, problem
    if header.codec_id > max(Codec):
        return KafkaError.UNKNOWN_SERVER_ERROR, f"codec {header.codec_id}, which Kafka does not have"
    return KafkaError.INVALID_TIMESTAMP, "a producer may not claim LogAppendTime"


def apply_data(entry: ProducerStateEntry, header: RecordBatchHeader, offset: int) -> ProducerStateEntry:
    """`entry` after a data batch at `offset`; its first transactional batch opens a transaction."""
    batch = BatchMetadata(
        last_sequence=header.last_sequence,
        last_offset=offset + header.last_offset_delta,
        offset_delta=header.last_offset_delta,
        timestamp=header.max_timestamp,
    )
    same_epoch = header.producer_epoch == entry.producer_epoch
    opens = header.is_transactional and entry.current_txn_first_offset is None
    return replace(
        entry,
        producer_epoch=header.producer_epoch,
        batches=(*entry.batches, batch)[-NUM_BATCHES_TO_RETAIN:] if same_epoch else (batch,),
        last_timestamp=header.max_timestamp,
        current_txn_first_offset=offset if opens else entry.current_txn_first_offset,
    )


def apply_marker(
    entry: ProducerStateEntry, header: RecordBatchHeader, marker: EndTransactionMarker
) -> ProducerStateEntry:
    """`entry` after a marker: no open transaction, and no batches if the epoch changed (facts §2.8)."""
    return replace(
        entry,
        producer_epoch=header.producer_epoch,
        batches=entry.batches if header.producer_epoch == entry.producer_epoch else (),
        coordinator_epoch=marker.coordinator_epoch,
        last_timestamp=header.max_timestamp,
        current_txn_first_offset=None,
    )


def append_batch(
    info: ProducerAppendInfo,
    header: RecordBatchHeader,
    *,
    offset: int,
    rules: Rules,
    marker: EndTransactionMarker | None = None,
    verification: Verification = NO_VERIFICATION,
) -> Admission:
    """One batch of one producer within one append; `offset` is where the batch would go."""
    if rules.origin is AppendOrigin.CLIENT and (original := find_duplicate(info.stored, header)):
        return Admission(decision=duplicate_of(info, header, original))
    if rules.origin is not AppendOrigin.REPLICATION:
        refusal = check_verification(info.stored, header, verification)
        if refusal is not None:
            return refuse(info, header, refusal)
    if header.is_control:
        return _append_marker(info, header, marker, offset, rules)
    return _append_data(info, header, offset, rules, verification.entry)


def _append_data(
    info: ProducerAppendInfo,
    header: RecordBatchHeader,
    offset: int,
    rules: Rules,
    verification: VerificationStateEntry | None,
) -> Admission:
    entry = info.updated
    refusal = check_data_epoch(entry, header.producer_epoch)
    if refusal is not None and rules.origin is not AppendOrigin.REPLICATION:
        return refuse(info, header, refusal)
    if rules.origin is AppendOrigin.CLIENT:
        expected = check_sequence(info, header, verification)
        if expected is not None:
            return refuse(info, header, sequence_verdict(info.stored, header), expected)
    outside = entry.current_txn_first_offset is not None and not header.is_transactional
    if outside and rules.enforce_open_transaction:
        return refuse(info, header, Verdict.INVALID_TRANSACTION_STATE)
    updated = apply_data(entry, header, offset)
    started = None
    if updated.current_txn_first_offset != entry.current_txn_first_offset:
        started = TxnMetadata(producer_id=header.producer_id, first_offset=offset)
    txn = updated.current_txn_first_offset if header.is_transactional else None
    return Admission(
        decision=accept(info, header, offset, txn), info=replace(info, updated=updated), started=started
    )


def _append_marker(
    info: ProducerAppendInfo,
    header: RecordBatchHeader,
    marker: EndTransactionMarker | None,
    offset: int,
    rules: Rules,
) -> Admission:
    if marker is None:
        return _append_control_without_marker(info, header, offset)
    entry = info.updated
    if rules.origin is not AppendOrigin.REPLICATION:
        refusal = check_marker_epoch(entry, header.producer_epoch, rules.version_of_markers)
        if refusal is None and marker.coordinator_epoch < entry.coordinator_epoch:
            refusal = Verdict.COORDINATOR_FENCED
        if refusal is not None:
            return refuse(info, header, refusal)
    completed = _complete(entry, marker, offset)
    updated = apply_marker(entry, header, marker)
    return Admission(
        decision=accept(info, header, offset, entry.current_txn_first_offset),
        info=replace(info, updated=updated),
        completed=completed,
    )


def _append_control_without_marker(
    info: ProducerAppendInfo, header: RecordBatchHeader, offset: int
) -> Admission:
    """An emptied control batch does not change the entry; only markers may have a producer id."""
    if header.record_count > 0:
        return refuse(info, header, Verdict.INVALID_RECORD)
    return Admission(decision=accept(info, header, offset, None), info=info)


def _complete(entry: ProducerStateEntry, marker: EndTransactionMarker, offset: int) -> CompletedTxn | None:
    if entry.current_txn_first_offset is None:
        return None
    return CompletedTxn(
        producer_id=entry.producer_id,
        first_offset=entry.current_txn_first_offset,
        last_offset=offset,
        is_aborted=marker.control_type is ControlType.ABORT,
    )


def admit(
    states: ProducerStates,
    header: RecordBatchHeader,
    *,
    offset: int,
    rules: Rules,
    marker: EndTransactionMarker | None = None,
    verification: Verification = NO_VERIFICATION,
) -> Admission:
    """One batch as an append of its own; without a producer id there is nothing to check or remember."""
    if not header.has_producer_id:
        return Admission(decision=accept_plain(header, offset))
    info = prepare(states.producers.get(header.producer_id), header.producer_id)
    return append_batch(info, header, offset=offset, rules=rules, marker=marker, verification=verification)


def fold(
    states: ProducerStates, rows: Iterable[BatchRow], *, rules: Rules
) -> tuple[tuple[Decision, ...], ProducerStates]:
    """Every batch of one partition in arrival order, each as an append of its own; `states` stays as it was.

    Offsets: under REPLICATION the headers' own, otherwise assigned without gaps from `states.end_offset`.
    Origin CLIENT: headers that break `check_client_header` become INVALID_RECORD; a control batch is judged
    as the coordinator's. There is no coordinator to verify with, so verification is off. Only its rule for
    TV2 clients remains: a producer without remembered batches starts a transaction at sequence 0 (facts
    §2.7).
    """
    producers, end_offset = dict(states.producers), states.end_offset
    decisions = []
    for row in rows:
        offset = row.header.base_offset if rules.origin is AppendOrigin.REPLICATION else end_offset
        admission = _admit_row(ProducerStates(producers=producers), row, offset, rules)
        decisions.append(admission.decision)
        if admission.info is not None:
            producers[row.header.producer_id] = merge(admission.info)
        if admission.decision.verdict is Verdict.ACCEPTED:
            end_offset = admission.decision.last_offset + 1
    return tuple(decisions), ProducerStates(producers=producers, end_offset=end_offset)


def _admit_row(states: ProducerStates, row: BatchRow, offset: int, rules: Rules) -> Admission:
    header = row.header
    if rules.origin is not AppendOrigin.CLIENT:
        return admit(states, header, offset=offset, rules=rules, marker=row.marker)
    if header.is_control:
        rules = replace(rules, origin=AppendOrigin.COORDINATOR)
        return admit(states, header, offset=offset, rules=rules, marker=row.marker)
    problem = check_client_header(header)
    if problem is not None:
        info = prepare(states.producers.get(header.producer_id), header.producer_id)
        return refuse(info, header, Verdict.INVALID_RECORD, message=problem)
    verification = _implied_verification(states, header, rules)
    return admit(states, header, offset=offset, rules=rules, verification=verification)


def _implied_verification(states: ProducerStates, header: RecordBatchHeader, rules: Rules) -> Verification:
    entry = states.producers.get(header.producer_id)
    if rules.transaction_version is not TransactionVersion.TV2 or not header.is_transactional:
        return NO_VERIFICATION
    if has_ongoing_transaction(entry, header.producer_epoch):
        return NO_VERIFICATION
    implied = VerificationStateEntry(
        guard=NO_GUARD,
        lowest_sequence=header.base_sequence,
        producer_epoch=header.producer_epoch,
        supports_epoch_bump=True,
    )
    return Verification(entry=implied)
