"""One outcome for every transaction of a producer id: markers and the coordinator's log joined (facts §3.8).

The rules need one producer id at a time, so that a cluster can run them on grouped rows: its transactions on
every partition, and what the coordinator's log says of them.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from spark_jobs.protocol.capture_matching import match_batches
from spark_jobs.protocol.coordinator_transaction import CoordinatorTransaction
from spark_jobs.protocol.end_txn import TransactionResult
from spark_jobs.protocol.partition_transactions import PartitionTransaction
from spark_jobs.protocol.spanned_gaps import doubts
from spark_jobs.protocol.topic_partition import TopicPartition
from spark_jobs.protocol.transaction_candidates import SEVERAL, candidates
from spark_jobs.protocol.transaction_matching import match_partition
from spark_jobs.protocol.transaction_outcome import Evidence, Outcome, ResolvedTransaction

_OUTCOMES = {TransactionResult.COMMIT: Outcome.COMMITTED, TransactionResult.ABORT: Outcome.ABORTED}
Decision = tuple[Outcome, tuple[Evidence, ...]]
_UNENDED: Decision = (Outcome.HANGING, (Evidence.MARKER_NEVER_WRITTEN,))


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolveContext:
    """What a run knows besides the rows: its logical time, the skew to allow for, and which logs it has.

    `past` is a time that has passed for certain when the logs were copied; what timed out before it was
    aborted. `has_markers` is false for captures of what producers sent: no marker was ever sent by one.
    `marked_until` is by partition the time of its newest marker: its copy is not older than that.
    """

    now: int
    past: int
    clock_skew_ms: int
    has_coordinator_log: bool = True
    has_markers: bool = True
    marked_until: Mapping[TopicPartition, int] = field(default_factory=dict)

    def has_seen(self, partition: TopicPartition, timestamp: int) -> bool:
        """Whether the copy of the partition is later than that time for certain, give or take the skew."""
        return self.marked_until.get(partition, timestamp) > timestamp + self.clock_skew_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerTransactions:
    """Everything about one producer id, `parts` of a partition in offset order, `coordinator` in log order.

    A capture's parts are single batches. `transactional_id` is the owner, None if the coordinator's log does
    not know the producer id; `is_unreadable` if a record of that id could not be read.
    """

    producer_id: int
    transactional_id: str | None = None
    parts: tuple[PartitionTransaction, ...] = ()
    coordinator: tuple[CoordinatorTransaction, ...] = ()
    is_unreadable: bool = False


def resolve(group: ProducerTransactions, context: ResolveContext) -> tuple[ResolvedTransaction, ...]:
    """An outcome for each transaction of the producer id; every part with data is in exactly one of them."""
    known = candidates(
        group.coordinator, clock_skew_ms=context.clock_skew_ms, trust_lone_aborts=context.has_markers
    )
    match = match_partition if context.has_markers else match_batches
    found: dict[int, list[PartitionTransaction]] = {index: [] for index in range(len(known.transactions))}
    ambiguous: list[PartitionTransaction] = []
    left_over: list[PartitionTransaction] = []
    hidden: list[PartitionTransaction] = []
    unended: list[PartitionTransaction] = []
    doubted: set[int] = set()
    for parts in _by_partition(group.parts).values():
        indexes = match(parts, known)
        for part, index, doubt in zip(parts, indexes, doubts(parts, indexes, known), strict=True):
            if index >= 0 and _lost_its_marker(part, known.transactions[index], context):
                unended.append(part)
                continue
            target = ambiguous if index == SEVERAL else found.get(index, left_over)
            (target if doubt is None else hidden).append(part)
            doubted.update(doubt or ())
    unclear = (Outcome.AMBIGUOUS, (Evidence.SEVERAL_FIT,))
    behind_gap = (Outcome.AMBIGUOUS, (Evidence.GAP,))
    resolved = (_known(group, txn, tuple(found[i]), context) for i, txn in enumerate(known.transactions))
    return (
        *(_doubted(txn) if i in doubted else txn for i, txn in enumerate(resolved)),
        *(_unknown(group, tuple(parts), unclear) for parts in _by_epoch(ambiguous).values()),
        *(_unknown(group, (part,), behind_gap) for part in hidden),
        *(_unknown(group, (part,), _UNENDED) for part in unended),
        *_resolve_left_over(group, left_over, context),
    )


def _doubted(resolved: ResolvedTransaction) -> ResolvedTransaction:
    """Decided as before, though some of its data may lie where a gap leaves it unclear."""
    return replace(resolved, evidence=(*resolved.evidence, Evidence.GAP))


def _lost_its_marker(
    part: PartitionTransaction, txn: CoordinatorTransaction, context: ResolveContext
) -> bool:
    """The coordinator calls it ended, yet the partition went on without the marker: none will come.

    A coordinator that has just started takes partitions whose leader it does not know yet for deleted, and
    completes their transactions without a marker (facts §3.7). Consumers stop there (facts §3.8).
    """
    is_over = part.marker is None and part.batch_count > 0 and txn.state.is_complete
    return (
        is_over and part.gap is None and context.has_seen(part.topic_partition, txn.last_update_timestamp_ms)
    )


def decide(
    txn: CoordinatorTransaction, parts: tuple[PartitionTransaction, ...], context: ResolveContext
) -> Decision:
    """The outcome of a transaction that the coordinator knows, from its state and the markers found."""
    results = {_result(part) for part in parts if part.marker is not None}
    if len(results) > 1 or (txn.result is not None and results - {txn.result}):
        return Outcome.CONFLICT, (Evidence.CONTRADICTION, Evidence.COORDINATOR, Evidence.MARKER)
    if txn.result is not None:
        return _OUTCOMES[txn.result], _evidence(txn, parts, context)
    if results:
        return _OUTCOMES[results.pop()], (Evidence.MARKER, Evidence.AHEAD_OF_COORDINATOR)
    if txn.is_cut:
        return Outcome.AMBIGUOUS, (Evidence.END_NOT_RECORDED,)
    if txn.is_timed_out(context.past):
        return Outcome.ABORTED, (Evidence.COORDINATOR, Evidence.TIMEOUT)
    return Outcome.ONGOING, (Evidence.COORDINATOR,)


def _known(
    group: ProducerTransactions,
    txn: CoordinatorTransaction,
    parts: tuple[PartitionTransaction, ...],
    context: ResolveContext,
) -> ResolvedTransaction:
    outcome, evidence = decide(txn, parts, context)
    data_epochs = (part.producer_epoch for part in parts if part.batch_count)
    return ResolvedTransaction(
        transactional_id=txn.transactional_id,
        producer_id=group.producer_id,
        producer_epoch=next(data_epochs, txn.possible_epochs[0]),
        outcome=outcome,
        evidence=evidence,
        coordinator=txn,
        parts=parts,
    )


def _evidence(
    txn: CoordinatorTransaction, parts: tuple[PartitionTransaction, ...], context: ResolveContext
) -> tuple[Evidence, ...]:
    """What says that a decided transaction ended so."""
    how = Evidence.PRODUCER_EPOCH if txn.names_its_epoch else Evidence.CLOCK
    if not parts:
        return (Evidence.COORDINATOR,)
    if not context.has_markers:
        return (Evidence.COORDINATOR, how)
    if all(part.marker is not None for part in parts):
        return (Evidence.COORDINATOR, Evidence.MARKER)
    is_proven = txn.state.is_prepare and txn.topic_partitions is not None
    return (Evidence.COORDINATOR, Evidence.MARKER_MISSING, *(() if is_proven else (how,)))


def _resolve_left_over(
    group: ProducerTransactions, parts: Iterable[PartitionTransaction], context: ResolveContext
) -> Iterator[ResolvedTransaction]:
    """Parts that no transaction of the coordinator's log explains."""
    for same_epoch in _by_epoch(parts).values():
        if any(_is_bumped_commit(part) for part in same_epoch):
            yield _unknown(group, tuple(same_epoch), _decide_by_epoch(group, same_epoch, context))
        elif not context.has_markers:
            yield _unknown(group, tuple(same_epoch), _decide_alone(group, same_epoch[0], context))
        else:
            alone = (part for part in same_epoch if part.batch_count)
            yield from (_unknown(group, (part,), _decide_alone(group, part, context)) for part in alone)


def _is_bumped_commit(part: PartitionTransaction) -> bool:
    """Only TV2 commits with a bumped epoch, so all of this epoch's data is one transaction's."""
    marker = part.marker
    if marker is None or not part.batch_count:
        return False
    return marker.is_commit and marker.producer_epoch == part.producer_epoch + 1


def _decide_by_epoch(
    group: ProducerTransactions, parts: Iterable[PartitionTransaction], context: ResolveContext
) -> Decision:
    """The outcome of a TV2 epoch's parts, one of which has a commit marker."""
    absent = _absent(group, context)
    results = {_own_result(part) for part in parts}
    if TransactionResult.ABORT in results:
        return Outcome.CONFLICT, (Evidence.CONTRADICTION, Evidence.MARKER, absent)
    if None in results:
        return Outcome.COMMITTED, (Evidence.MARKER_ELSEWHERE, Evidence.PRODUCER_EPOCH, absent)
    return Outcome.COMMITTED, (Evidence.MARKER, absent)


def _decide_alone(
    group: ProducerTransactions, part: PartitionTransaction, context: ResolveContext
) -> Decision:
    """The outcome of a part by itself: its marker's, else it stays open."""
    absent = _absent(group, context)
    if part.gap is not None:
        return Outcome.AMBIGUOUS, (Evidence.GAP, absent)
    if part.marker is not None:
        return _OUTCOMES[_result(part)], (Evidence.MARKER, absent)
    if not context.has_coordinator_log:
        return Outcome.ONGOING, (absent,)
    if group.is_unreadable or (group.transactional_id is not None and not context.has_markers):
        return Outcome.AMBIGUOUS, (Evidence.END_NOT_RECORDED,)
    return Outcome.HANGING, (absent,)


def _absent(group: ProducerTransactions, context: ResolveContext) -> Evidence:
    """Why the coordinator has no say."""
    if not context.has_coordinator_log:
        return Evidence.NO_COORDINATOR_LOG
    return Evidence.NO_COORDINATOR_ENTRY if group.transactional_id is None else Evidence.NOT_LISTED


def _unknown(
    group: ProducerTransactions, parts: tuple[PartitionTransaction, ...], decision: Decision
) -> ResolvedTransaction:
    outcome, evidence = decision
    return ResolvedTransaction(
        transactional_id=group.transactional_id,
        producer_id=group.producer_id,
        producer_epoch=_data_epoch(parts[0]),
        outcome=outcome,
        evidence=evidence,
        coordinator=None,
        parts=parts,
    )


def _result(part: PartitionTransaction) -> TransactionResult:
    committed = part.marker is not None and part.marker.is_commit
    return TransactionResult.COMMIT if committed else TransactionResult.ABORT


def _own_result(part: PartitionTransaction) -> TransactionResult | None:
    """What the marker of a TV2 epoch's part says; a later one, where a gap hides its own, says nothing."""
    marker = part.marker
    is_anothers = (
        part.gap is not None and marker is not None and marker.producer_epoch > part.producer_epoch + 1
    )
    return None if marker is None or is_anothers else _result(part)


def _data_epoch(part: PartitionTransaction) -> int:
    """A marker that closed nothing tells only its own epoch, which TV2 bumped."""
    return part.producer_epoch if part.batch_count else part.producer_epoch - 1


def _by_epoch(parts: Iterable[PartitionTransaction]) -> dict[int, list[PartitionTransaction]]:
    epochs: dict[int, list[PartitionTransaction]] = {}
    for part in parts:
        epochs.setdefault(_data_epoch(part), []).append(part)
    return epochs


def _by_partition(
    parts: Iterable[PartitionTransaction],
) -> dict[TopicPartition, list[PartitionTransaction]]:
    partitions: dict[TopicPartition, list[PartitionTransaction]] = {}
    for part in parts:
        partitions.setdefault(part.topic_partition, []).append(part)
    return partitions
