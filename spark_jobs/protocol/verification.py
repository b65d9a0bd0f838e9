"""How a leader remembers which transactions its coordinator was asked about (facts §2.5)."""

from dataclasses import dataclass, replace

from spark_jobs.protocol.decision import NO_GUARD
from spark_jobs.protocol.producer_state import VerificationStateEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionVerification:
    """The answer to a leader's "may this transaction begin here?"; a stale epoch is fenced at once.

    `guard` is what the append must show; NO_GUARD means that the transaction is already open.
    """

    guard: int = NO_GUARD
    is_fenced: bool = False


def with_attempt(state: VerificationStateEntry, sequence: int, producer_epoch: int) -> VerificationStateEntry:
    """`state` after one more attempt: lowered to an earlier sequence, or moved to a newer epoch."""
    if producer_epoch > state.producer_epoch:
        return replace(state, lowest_sequence=sequence, producer_epoch=producer_epoch)
    if producer_epoch == state.producer_epoch:
        return replace(state, lowest_sequence=min(sequence, state.lowest_sequence))
    return state


def is_for_next_transaction(state: VerificationStateEntry, marker_epoch: int) -> bool:
    """Whether a marker of that epoch ends the transaction before the one that `state` is about (TV2)."""
    return state.supports_epoch_bump and state.producer_epoch == marker_epoch
