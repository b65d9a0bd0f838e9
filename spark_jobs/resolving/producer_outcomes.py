"""The rules of `protocol.transactions` for one producer whose partitions may be captured without markers.

Where a capture lacks markers, the coordinator's log gave them before the batches were judged, so that what is
closed needs no other treatment. What is still open there waits for the coordinator, not for a marker: it can
only be the transaction that its first and its last batch both belong to.
"""

from collections.abc import Sequence
from dataclasses import replace

from spark_jobs.protocol.capture_matching import match_batches
from spark_jobs.protocol.partition_transactions import PartitionTransaction
from spark_jobs.protocol.transaction_candidates import SEVERAL, Candidates, candidates
from spark_jobs.protocol.transaction_outcome import Evidence, Outcome, ResolvedTransaction
from spark_jobs.protocol.transactions import ProducerTransactions, ResolveContext, decide, resolve


def resolve_producer(
    group: ProducerTransactions,
    context: ResolveContext,
    *,
    unmarked: Sequence[PartitionTransaction] = (),
) -> tuple[ResolvedTransaction, ...]:
    """An outcome for each transaction, in the order of `resolve`; `unmarked` are open parts of captures."""
    if not unmarked:
        return resolve(group, context)
    resolved = list(resolve(group, context))
    known = candidates(group.coordinator, clock_skew_ms=context.clock_skew_ms, trust_lone_aborts=False)
    for part in unmarked:
        index = transaction_of(part, known)
        if index >= 0:
            resolved[index] = _with_part(resolved[index], part, context, group)
        else:
            resolved.append(_by_itself(group, part, context, is_unclear=index == SEVERAL))
    return tuple(resolved)


def transaction_of(part: PartitionTransaction, known: Candidates) -> int:
    """The index of the one transaction that all of an open part's batches are of, NO_MATCH or SEVERAL."""
    first_epoch = part.producer_epoch if part.first_epoch is None else part.first_epoch
    ends = (
        replace(part, producer_epoch=first_epoch, last_timestamp=part.first_timestamp),
        replace(part, first_timestamp=part.last_timestamp),
    )
    first, last = match_batches(ends, known)
    return first if first == last else SEVERAL


def _with_part(
    resolved: ResolvedTransaction,
    part: PartitionTransaction,
    context: ResolveContext,
    group: ProducerTransactions,
) -> ResolvedTransaction:
    parts = (*resolved.parts, part)
    assert resolved.coordinator is not None  # what the coordinator tells comes first in the order of its log
    outcome, evidence = decide(resolved.coordinator, parts, context, group.coordinator_partition)
    return replace(
        resolved, parts=parts, outcome=outcome, evidence=evidence, producer_epoch=part.producer_epoch
    )


def _by_itself(
    group: ProducerTransactions, part: PartitionTransaction, context: ResolveContext, *, is_unclear: bool
) -> ResolvedTransaction:
    """A part that no one transaction of the coordinator's log explains."""
    alone = replace(group, parts=(part,), coordinator=())
    (resolved,) = resolve(alone, replace(context, has_markers=False))
    if is_unclear:
        return replace(resolved, outcome=Outcome.AMBIGUOUS, evidence=(Evidence.SEVERAL_FIT,))
    return resolved
