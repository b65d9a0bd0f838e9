"""Outcomes in words: what became of a transaction, and why, for people who do not know the codes."""

from collections.abc import Sized
from functools import cache

from spark_jobs.protocol.coordinator_log import TransactionState
from spark_jobs.protocol.transaction_outcome import Evidence, Outcome, ResolvedTransaction

_WORDS = {
    Evidence.MARKER: "its markers say so",
    Evidence.COORDINATOR: "the coordinator's log has it as {state}",
    Evidence.MARKER_ELSEWHERE: "its marker on another partition says so",
    Evidence.PRODUCER_EPOCH: "its epoch is used by no other transaction",
    Evidence.CLOCK: "order and timestamps leave no other transaction",
    Evidence.TIMEOUT: "its timeout of {timeout} ms had passed when the coordinator's log was copied",
    Evidence.MARKER_MISSING: "{missing} of its partitions have no marker",
    Evidence.MARKER_NEVER_WRITTEN: "the coordinator calls it ended, its partition goes on without a marker",
    Evidence.AHEAD_OF_COORDINATOR: "the copy of the coordinator's log is older than the markers",
    Evidence.CONTRADICTION: "markers contradict the coordinator or each other",
    Evidence.END_NOT_RECORDED: "the coordinator's log goes on, or cannot be read, without its end",
    Evidence.NOT_LISTED: "the coordinator knows the producer, but not this transaction on this partition",
    Evidence.NO_COORDINATOR_ENTRY: "the coordinator's log does not know the producer",
    Evidence.NO_COORDINATOR_LOG: "there is no copy of the coordinator's log, so markers alone decide",
    Evidence.COORDINATOR_OLDER: "undecidable: the coordinator's copy is older than the data",
    Evidence.NOT_PROVEN: "undecidable: the copies do not show that the coordinator's log is newer than the "
    "data by more than its timeout",
    Evidence.SEVERAL_FIT: "it can be one of several transactions that ended differently",
    Evidence.GAP: "offsets are missing that may hold a marker of it",
}


def sentence_of(resolved: ResolvedTransaction, missing: Sized) -> str:
    """Outcome and evidence as a sentence; `missing` are the partitions without a marker."""
    coordinator = resolved.coordinator
    sentence = _sentence(
        resolved.outcome,
        resolved.evidence,
        None if coordinator is None else coordinator.state,
        0 if coordinator is None else coordinator.transaction_timeout_ms,
        len(missing),
    )
    return f"{sentence}{_gaps_of(resolved)}" if Evidence.GAP in resolved.evidence else sentence


def _gaps_of(resolved: ResolvedTransaction) -> str:
    """Which offsets its own parts lack, in brackets; those of parts that it only may be in are told there."""
    spans = ((part.topic_partition, part.gap) for part in resolved.parts if part.gap is not None)
    told = ", ".join(f"{gap.first_offset} to {gap.last_offset} of {where}" for where, gap in spans)
    return f" (missing: {told})" if told else ""


@cache
def _sentence(
    outcome: Outcome,
    evidence: tuple[Evidence, ...],
    state: TransactionState | None,
    timeout: int,
    missing: int,
) -> str:
    label = "" if state is None else state.label
    reasons = (_WORDS[each].format(state=label, timeout=timeout, missing=missing) for each in evidence)
    return f"{outcome}: {'; '.join(reasons)}"
