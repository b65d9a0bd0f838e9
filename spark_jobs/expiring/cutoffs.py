"""Cutoff dates, counted from the newest final run; no clock is read."""

from dataclasses import dataclass
from datetime import date, timedelta

from spark_jobs.config.retention import RetentionSettings
from spark_jobs.storage.chain import Chain

DATE_LENGTH = len("2024-05-01")
NEWEST_KEPT = 2
"""The newest run provides the state of the next one, and the one before it does after a rollback."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cutoffs:
    """Last dates that may be removed, None where all is kept; runs in `needed` are kept whatever their
    date.
    """

    runs: date | None = None
    snapshots: date | None = None
    staged: date | None = None
    needed: frozenset[str] = frozenset()

    def is_old(self, run_id: str, last: date | None) -> bool:
        """Whether the run's date is `last` or before, and it is not needed."""
        return last is not None and day_of(run_id) <= last and run_id not in self.needed


def day_of(run_id: str) -> date:
    """A run's name begins with its date."""
    return date.fromisoformat(run_id[:DATE_LENGTH])


def cutoffs_of(chain: Chain, retention: RetentionSettings) -> Cutoffs:
    """Runs that the chain needs are kept; a lake without final runs keeps everything."""
    newest = list(chain.current.values())[-NEWEST_KEPT:]
    if not newest:
        return Cutoffs()
    holders = (chain.run_with_state(entry.state_out) for entry in newest)
    needed = {entry.run_id for entry in (*newest, *holders) if entry is not None}
    days = (retention.runs_days, retention.snapshots_days, retention.staged_days)
    runs, snapshots, staged = (
        newest[-1].day - timedelta(days=each) if each is not None else None for each in days
    )
    return Cutoffs(runs=runs, snapshots=snapshots, staged=staged, needed=frozenset(needed))
