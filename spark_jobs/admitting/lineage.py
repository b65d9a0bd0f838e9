"""The leader epochs of a run's segments (facts §1.11).

A run continues under the epoch that it starts with. Where another run has given the same offsets, a segment
that comes out the same keeps the epoch it had there. At the first one that differs the old log is cut off, as
after a change of leaders, and a new epoch begins.
"""

from spark_jobs.protocol.checkpoint import EpochEntry
from spark_jobs.protocol.leader_epochs import LeaderEpochs
from spark_jobs.storage.manifest import Truncation
from spark_jobs.storage.state_file import PartitionState


class Lineage:
    """The leader epochs of one captured partition while a run writes its segments."""

    def __init__(self, state: PartitionState, truncation: Truncation | None) -> None:
        self._epochs = LeaderEpochs(entries=state.leader_epochs)
        is_due = truncation is not None and truncation.leader_epoch > state.leader_epoch
        self._old = truncation if is_due else None
        self._segments = dict(truncation.segments) if truncation is not None and is_due else {}

    def epoch_at(self, base_offset: int) -> int:
        """What the segment from there on is written under, until it is settled."""
        old = self._old.epochs if self._old is not None else ()
        known = [epoch for epoch, start_offset in old if start_offset <= base_offset]
        return max([self._latest, *known[-1:]])

    def settle(self, base_offset: int, digest: str) -> int:
        """The epoch that the finished segment has to have: its own, or the new one if the old log ends."""
        if self._old is None:
            return self._latest
        if self._segments.pop(base_offset, None) == digest:
            self._epochs = self._epochs.assign(self.epoch_at(base_offset), base_offset)
        else:
            self._cut_off(self._old, base_offset)
        return self._latest

    def finish(self, end_offset: int) -> tuple[EpochEntry, ...]:
        """The run's leader epochs; a log that ends before the old one did is truncated there."""
        if self._old is not None and self._segments:
            self._cut_off(self._old, end_offset)
        return self._epochs.entries

    @property
    def _latest(self) -> int:
        return max(self._epochs.latest_epoch, 0)

    def _cut_off(self, old: Truncation, offset: int) -> None:
        self._epochs, self._old = self._epochs.assign(old.leader_epoch, offset), None
