"""One outcome for every transaction of a producer id: markers and the coordinator's log joined (facts §3.8).

The rules need one producer id at a time, so that a cluster can run them on grouped rows: its transactions on
every partition, and those in the coordinator's log.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate

from spark_jobs.kafka.coordinator.timeline import CoordinatorTransaction
from spark_jobs.kafka.coordinator.transaction_metadata import TransactionResult
from spark_jobs.kafka.topic_partition import TopicPartition
from spark_jobs.kafka.transactions.hanging import CopyReach
from spark_jobs.kafka.transactions.matching import (
    NO_MATCH,
    SEVERAL,
    Candidates,
    candidates,
    end_of,
    match_batches,
    match_partition,
)
from spark_jobs.kafka.transactions.outcome import Evidence, Outcome, ResolvedTransaction
from spark_jobs.kafka.transactions.partition_transactions import PartitionTransaction, WrittenMarker

PossibleTransactions = tuple[int, ...]
"""Indexes of the transactions that a part can hold data of."""


def unclear_by_gap(
    parts: Sequence[PartitionTransaction], indexes: Sequence[int], known: Candidates
) -> Sequence[PossibleTransactions | None]:
    """For each part of one partition, matched to `indexes`: None unless a gap leaves its outcome open."""
    if all(part.gap is None for part in parts):
        return (None,) * len(parts)
    before = accumulate(indexes[:-1], max, initial=NO_MATCH)
    return [_unclear_by_gap(*each, known) for each in zip(parts, indexes, before, strict=True)]


def _unclear_by_gap(
    part: PartitionTransaction, index: int, newest: int, known: Candidates
) -> PossibleTransactions | None:
    """An unmatched part is decided without the coordinator, if it has only one epoch."""
    if part.gap is None or (index == NO_MATCH and len(part.epochs) == 1):
        return None
    possible = tuple(i for i in range(newest + 1, _end(part, index, known)) if _can_be_in(part, i, known))
    if index in {NO_MATCH, SEVERAL} or not _is_all_known(part, known) or not _ends_it(part, index, known):
        return possible
    return None if _end_alike({index, *possible}, known) else possible


def _end(part: PartitionTransaction, index: int, known: Candidates) -> int:
    """The marker's transaction is the last one possible; an open part may continue with any later one."""
    return len(known.transactions) if part.marker is None or index < 0 else index + 1


def _can_be_in(part: PartitionTransaction, index: int, known: Candidates) -> bool:
    """Whether the transaction has the partition, one of the part's epochs, and overlaps its time."""
    txn, skew_ms = known.transactions[index], known.clock_skew_ms
    is_over = end_of(known, index) + skew_ms < part.first_timestamp
    is_later = part.marker is None and txn.start_timestamp_ms - skew_ms > part.last_timestamp
    has_its_epoch = any(epoch in part.epochs for epoch in txn.possible_epochs)
    return txn.lists(part.topic_partition) and has_its_epoch and not is_over and not is_later


def _is_all_known(part: PartitionTransaction, known: Candidates) -> bool:
    """Whether the coordinator's log reaches back to before the part's first batch."""
    first = part.epochs[0]
    if first in known.named_by_data:
        # A lone abort may be the fence of an older client, which used its epoch for other transactions too.
        return known.transactions[known.named_by_data[first]].is_clients_own
    return first in known.sharing_data_epoch and not known.may_be_older(first, part.first_timestamp)


def _ends_it(part: PartitionTransaction, index: int, known: Candidates) -> bool:
    """Whether no data of the part belongs to a later transaction, which the coordinator's copy may lack.

    An epoch of its own proves it, unless the marker has a later one. Otherwise the marker, or the last batch
    of an open part, has to fit in time, and the marker has to agree with the result.
    """
    txn, marker = known.transactions[index], part.marker
    if txn.names_its_epoch and len(part.epochs) == 1:
        return marker is None or marker.producer_epoch <= part.producer_epoch + 1
    latest = part.last_timestamp if marker is None else marker.timestamp
    if txn.result is None or latest > end_of(known, index) + known.clock_skew_ms:
        return False
    return marker is None or marker.is_commit == (txn.result is TransactionResult.COMMIT)


def _end_alike(indexes: set[int], known: Candidates) -> bool:
    return len({known.transactions[i].result for i in indexes}) == 1


_OUTCOMES = {TransactionResult.COMMIT: Outcome.COMMITTED, TransactionResult.ABORT: Outcome.ABORTED}
DecidedOutcome = tuple[Outcome, tuple[Evidence, ...]]
MAX_TRANSACTION_TIMEOUT_MS = 900_000
"""Kafka's default of `transaction.max.timeout.ms`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolveContext:
    """What a run knows besides the rows: its logical time, the clock skew, and which logs it has.

    `past` is when the run's day began: a transaction that timed out before it, and before the coordinator's
    log was copied, was aborted. `has_markers` is false for captures of producer requests, which contain no
    markers. `reach` is how far in time the copies reach, `max_timeout_ms` the timeout of a transaction whose
    own is unknown.
    """

    now: int
    past: int
    clock_skew_ms: int
    has_coordinator_log: bool = True
    has_markers: bool = True
    reach: CopyReach = field(default_factory=CopyReach)
    max_timeout_ms: int = MAX_TRANSACTION_TIMEOUT_MS

    def past_of(self, coordinator: int | None) -> int | None:
        """A time that had certainly passed when that partition of the coordinator's log was copied."""
        reached = self.reach.coordinator_time(coordinator)
        return None if reached is None else min(self.past, reached - self.clock_skew_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerTransactions:
    """The input for one producer id: `parts` of a partition in offset order, `coordinator` in log order.

    A capture's parts are single batches. `transactional_id` is the owner, None if the coordinator's log does
    not have the producer id. `coordinator_partition` is the partition of that log that has it.
    `is_unreadable` if a record of that id could not be read.
    """

    producer_id: int
    transactional_id: str | None = None
    coordinator_partition: int | None = None
    parts: tuple[PartitionTransaction, ...] = ()
    coordinator: tuple[CoordinatorTransaction, ...] = ()
    is_unreadable: bool = False

    def timeout_ms(self, context: ResolveContext) -> int:
        """The longest timeout of this producer's transactions in the coordinator's log."""
        return max((txn.transaction_timeout_ms for txn in self.coordinator), default=context.max_timeout_ms)


def resolve(group: ProducerTransactions, context: ResolveContext) -> tuple[ResolvedTransaction, ...]:
    """An outcome for each transaction of the producer id; every part with data is in exactly one of them.

    Those that the coordinator knows come first, in the order of its log.
    """
    known = candidates(
        group.coordinator, clock_skew_ms=context.clock_skew_ms, trust_lone_aborts=context.has_markers
    )
    match = match_partition if context.has_markers else match_batches
    found: list[list[PartitionTransaction]] = [[] for _ in known.transactions]
    ambiguous: list[PartitionTransaction] = []
    left_over: list[PartitionTransaction] = []
    hidden: list[PartitionTransaction] = []
    unended: list[PartitionTransaction] = []
    near_gap: set[int] = set()
    for parts in _by_partition(group.parts).values():
        indexes = match(parts, known)
        for part, index, possible in zip(parts, indexes, unclear_by_gap(parts, indexes, known), strict=True):
            if possible is not None:
                hidden.append(part)
                near_gap.update(possible)
            elif index < 0:
                (ambiguous if index == SEVERAL else left_over).append(part)
            else:
                is_unended = _lost_its_marker(part, known.transactions[index], context)
                (unended if is_unended else found[index]).append(part)
    unclear = (Outcome.AMBIGUOUS, (Evidence.SEVERAL_FIT,))
    behind_gap = (Outcome.AMBIGUOUS, (Evidence.GAP,))
    resolved = [_known(group, *each, context) for each in zip(known.transactions, found, strict=True)]
    for index in near_gap:
        resolved[index] = _with_gap_evidence(resolved[index])
    return (
        *resolved,
        *(_unknown(group, tuple(parts), unclear) for parts in _by_epoch(ambiguous).values()),
        *(_unknown(group, (part,), behind_gap) for part in hidden),
        *(_unknown(group, (part,), _decide_unended(group, part, context)) for part in unended),
        *_resolve_left_over(group, left_over, context),
    )


def _decide_unended(
    group: ProducerTransactions, part: PartitionTransaction, context: ResolveContext
) -> DecidedOutcome:
    """Hanging, unless the transaction may have begun after the coordinator's log was copied."""
    if context.reach.is_newer(part, group.coordinator_partition):
        return Outcome.HANGING, (Evidence.MARKER_NEVER_WRITTEN,)
    is_behind = context.reach.is_behind(part, group.coordinator_partition)
    why = Evidence.COORDINATOR_OLDER if is_behind else Evidence.NOT_PROVEN
    return Outcome.ONGOING, (why, Evidence.MARKER_NEVER_WRITTEN)


def _with_gap_evidence(resolved: ResolvedTransaction) -> ResolvedTransaction:
    """The same outcome, with the evidence that some of its data may be in an unclear part."""
    return replace(resolved, evidence=(*resolved.evidence, Evidence.GAP))


def _lost_its_marker(
    part: PartitionTransaction, txn: CoordinatorTransaction, context: ResolveContext
) -> bool:
    """Whether the transaction is complete, but its marker was never written to the partition.

    A coordinator that has just started treats partitions without a known leader as deleted, and completes
    their transactions without a marker (facts §3.7). Consumers stop there (facts §3.8).
    """
    if part.marker is not None or part.gap is not None or not part.batch_count:
        return False
    is_complete = txn.state.is_complete
    return is_complete and context.reach.has_seen(part.topic_partition, txn.last_update_timestamp_ms)


def decide(
    txn: CoordinatorTransaction,
    parts: tuple[PartitionTransaction, ...],
    context: ResolveContext,
    coordinator_partition: int | None,
) -> DecidedOutcome:
    """The outcome of a transaction that the coordinator knows, from its state and the markers found."""
    result = txn.result
    results = {_result(part.marker) for part in parts if part.marker is not None}
    if len(results) > 1 or (result is not None and results - {result}):
        return Outcome.CONFLICT, (Evidence.CONTRADICTION, Evidence.COORDINATOR, Evidence.MARKER)
    if result is not None:
        return _OUTCOMES[result], _evidence(txn, parts, context)
    if results:
        return _OUTCOMES[results.pop()], (Evidence.MARKER, Evidence.AHEAD_OF_COORDINATOR)
    if txn.is_cut:
        return Outcome.AMBIGUOUS, (Evidence.END_NOT_RECORDED,)
    past = context.past_of(coordinator_partition)
    if past is not None and txn.is_timed_out(past):
        return Outcome.ABORTED, (Evidence.COORDINATOR, Evidence.TIMEOUT)
    return Outcome.ONGOING, (Evidence.COORDINATOR,)


def _known(
    group: ProducerTransactions,
    txn: CoordinatorTransaction,
    found: Iterable[PartitionTransaction],
    context: ResolveContext,
) -> ResolvedTransaction:
    parts = tuple(found)
    outcome, evidence = decide(txn, parts, context, group.coordinator_partition)
    return ResolvedTransaction(
        transactional_id=txn.transactional_id,
        producer_id=group.producer_id,
        producer_epoch=_epoch_of(txn, parts),
        outcome=outcome,
        evidence=evidence,
        coordinator=txn,
        parts=parts,
    )


def _epoch_of(txn: CoordinatorTransaction, parts: Iterable[PartitionTransaction]) -> int:
    """The epoch of its data if there is any, else the recorded one."""
    for part in parts:
        if part.batch_count:
            return part.producer_epoch
    return txn.possible_epochs[0]


def _evidence(
    txn: CoordinatorTransaction, parts: tuple[PartitionTransaction, ...], context: ResolveContext
) -> tuple[Evidence, ...]:
    """The evidence for the result of a decided transaction."""
    if not parts:
        return (Evidence.COORDINATOR,)
    if context.has_markers and all(part.marker is not None for part in parts):
        return (Evidence.COORDINATOR, Evidence.MARKER)
    how = Evidence.PRODUCER_EPOCH if txn.names_its_epoch else Evidence.CLOCK
    if not context.has_markers:
        return (Evidence.COORDINATOR, how)
    is_proven = txn.state.is_prepare and txn.topic_partitions is not None
    return (Evidence.COORDINATOR, Evidence.MARKER_MISSING, *(() if is_proven else (how,)))


def _resolve_left_over(
    group: ProducerTransactions, parts: Iterable[PartitionTransaction], context: ResolveContext
) -> Iterator[ResolvedTransaction]:
    """Outcomes of parts that match no transaction of the coordinator's log."""
    absent = _absent(group, context)
    for same_epoch in _by_epoch(parts).values():
        if any(map(_is_bumped_commit, same_epoch)):
            yield _unknown(group, tuple(same_epoch), _decide_by_epoch(same_epoch, absent))
        elif not context.has_markers:
            yield _unknown(group, tuple(same_epoch), _decide_alone(group, same_epoch, context, absent))
        else:
            for part in same_epoch:
                if part.batch_count:
                    yield _unknown(group, (part,), _decide_alone(group, [part], context, absent))


def _is_bumped_commit(part: PartitionTransaction) -> bool:
    """Only TV2 commits with a bumped epoch, so all data of this epoch belongs to one transaction."""
    marker = part.marker
    if marker is None or not part.batch_count:
        return False
    return marker.is_commit and marker.producer_epoch == part.producer_epoch + 1


def _decide_by_epoch(parts: Iterable[PartitionTransaction], absent: Evidence) -> DecidedOutcome:
    """The outcome of a TV2 epoch's parts, one of which has a commit marker."""
    results = set(map(_own_result, parts))
    if TransactionResult.ABORT in results:
        return Outcome.CONFLICT, (Evidence.CONTRADICTION, Evidence.MARKER, absent)
    if None in results:
        return Outcome.COMMITTED, (Evidence.MARKER_ELSEWHERE, Evidence.PRODUCER_EPOCH, absent)
    return Outcome.COMMITTED, (Evidence.MARKER, absent)


def _decide_alone(
    group: ProducerTransactions,
    parts: Sequence[PartitionTransaction],
    context: ResolveContext,
    absent: Evidence,
) -> DecidedOutcome:
    """The outcome of parts without a coordinator transaction: their marker's, else ongoing or hanging."""
    part = parts[0]
    if part.gap is not None:
        return Outcome.AMBIGUOUS, (Evidence.GAP, absent)
    if part.marker is not None:
        return _OUTCOMES[_result(part.marker)], (Evidence.MARKER, absent)
    return _decide_open(group, parts, context, absent)


def _decide_open(
    group: ProducerTransactions,
    parts: Sequence[PartitionTransaction],
    context: ResolveContext,
    absent: Evidence,
) -> DecidedOutcome:
    """The outcome of parts without marker and coordinator transaction: hanging only with proof."""
    if not context.has_coordinator_log:
        return Outcome.ONGOING, (absent,)
    reach, owner = context.reach, group.coordinator_partition
    is_captured = group.transactional_id is not None and not context.has_markers
    is_behind = any(reach.is_behind(part, owner) for part in parts)
    if group.is_unreadable or (is_captured and not is_behind):
        return Outcome.AMBIGUOUS, (Evidence.END_NOT_RECORDED,)
    if all(reach.is_over(part, owner, group.timeout_ms(context)) for part in parts):
        return Outcome.HANGING, (absent,)
    return Outcome.ONGOING, (Evidence.COORDINATOR_OLDER if is_behind else Evidence.NOT_PROVEN, absent)


def _absent(group: ProducerTransactions, context: ResolveContext) -> Evidence:
    """Why there is no coordinator transaction."""
    if not context.has_coordinator_log:
        return Evidence.NO_COORDINATOR_LOG
    return Evidence.NO_COORDINATOR_ENTRY if group.transactional_id is None else Evidence.NOT_LISTED


def _unknown(
    group: ProducerTransactions, parts: tuple[PartitionTransaction, ...], decision: DecidedOutcome
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


def _result(marker: WrittenMarker) -> TransactionResult:
    return TransactionResult.COMMIT if marker.is_commit else TransactionResult.ABORT


def _own_result(part: PartitionTransaction) -> TransactionResult | None:
    """The result of the part's own marker; None if a gap hides it and the marker is a later one."""
    marker = part.marker
    if marker is None or (part.gap is not None and marker.producer_epoch > part.producer_epoch + 1):
        return None
    return _result(marker)


def _data_epoch(part: PartitionTransaction) -> int:
    """The epoch of the data; a marker without data has only its own epoch, which TV2 bumped."""
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
