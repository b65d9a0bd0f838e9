"""What was decided of many transactions: few decisions, each of them many times."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from spark_jobs.protocol.transaction_outcome import Evidence, Outcome, ResolvedTransaction
from spark_jobs.protocol.transactions import Decision
from spark_jobs.resolving.cuts import Flags, Numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class Decisions:
    """Each decision once, and of each transaction the place of its own among them."""

    distinct: tuple[Decision, ...]
    places: Numbers

    def column(
        self, of: Callable[[Outcome, tuple[Evidence, ...]], Any], kind: pa.DataType
    ) -> "pa.Array[Any]":
        """Of each transaction what follows from its decision."""
        return pa.array([of(*decision) for decision in self.distinct], kind).take(self.places)

    @property
    def is_final(self) -> Flags:
        """Of each transaction, whether it was decided by somebody's word, with nothing missing."""
        found: Flags = self.column(_is_final, pa.bool_()).to_numpy(zero_copy_only=False)
        return found


def decisions_of(transactions: Iterable[ResolvedTransaction]) -> Decisions:
    """The decisions on `transactions`."""
    seen: dict[Decision, int] = {}
    places = [seen.setdefault((each.outcome, each.evidence), len(seen)) for each in transactions]
    return Decisions(distinct=tuple(seen), places=np.array(places, dtype=np.int32))


def _is_final(outcome: Outcome, evidence: tuple[Evidence, ...]) -> bool:
    return outcome.is_decided and Evidence.TIMEOUT not in evidence and Evidence.GAP not in evidence
