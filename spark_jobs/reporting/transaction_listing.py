"""The transactions of a lake as its newest resolved run left them."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from spark_jobs.flow import STEPS, Step
from spark_jobs.protocol.transaction_outcome import Outcome
from spark_jobs.storage.chain import Chain
from spark_jobs.storage.layout import step_key
from spark_jobs.storage.object_store import ObjectStore
from spark_jobs.storage.parquet_file import iter_rows

UNDECIDED = frozenset(outcome.value for outcome in Outcome if not outcome.is_decided)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedTransaction:
    """A row of the table `transactions`, and the run that wrote it."""

    run_id: str
    row: dict[str, Any]

    @property
    def partitions(self) -> str:
        """Where it has data, and from which offset on."""
        found = zip(self.row["partitions_found"], self.row["first_offsets"], strict=True)
        return ", ".join(f"{partition} from {offset}" for partition, offset in found)


def newest_resolved(chain: Chain) -> str | None:
    """The newest final run that went as far as `resolve`."""
    resolved = (
        entry.run_id
        for entry in reversed(chain.current.values())
        if STEPS.index(entry.last_step) >= STEPS.index(Step.RESOLVE)
    )
    return next(resolved, None)


def list_transactions(lake: ObjectStore, run_id: str, *, decided: bool) -> Iterator[ListedTransaction]:
    """The undecided transactions; with `decided` also the others that the run had news of."""
    for found in lake.list(step_key(run_id, Step.RESOLVE, "transactions")):
        for batch in iter_rows(lake, found.key):
            for row in batch.to_pylist():
                if decided or row["outcome"] in UNDECIDED:
                    yield ListedTransaction(run_id=run_id, row=row)
