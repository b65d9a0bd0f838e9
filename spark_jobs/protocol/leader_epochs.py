"""Which leader epoch wrote from which offset on: the cache behind `leader-epoch-checkpoint` (facts §1.11)."""

from dataclasses import dataclass

from spark_jobs.protocol.checkpoint import EpochEntry

UNDEFINED_EPOCH = -1
UNDEFINED_OFFSET = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderEpochs:
    """Entries with rising epochs and start offsets; every change gives a new value."""

    entries: tuple[EpochEntry, ...] = ()

    @property
    def latest_epoch(self) -> int:
        return self.entries[-1].epoch if self.entries else UNDEFINED_EPOCH

    def assign(self, epoch: int, start_offset: int) -> "LeaderEpochs":
        """`epoch` writes from `start_offset` on; what contradicts it at the tail is forgotten."""
        if self.entries and self.entries[-1].epoch == epoch and self.entries[-1].start_offset <= start_offset:
            return self
        kept = list(self.entries)
        while kept and (kept[-1].epoch >= epoch or kept[-1].start_offset >= start_offset):
            kept.pop()
        return LeaderEpochs(entries=(*kept, EpochEntry(epoch=epoch, start_offset=start_offset)))

    def truncate_from_end(self, end_offset: int) -> "LeaderEpochs":
        """Forget epochs that begin at or after `end_offset`."""
        return LeaderEpochs(entries=tuple(e for e in self.entries if e.start_offset < end_offset))

    def truncate_from_start(self, start_offset: int) -> "LeaderEpochs":
        """Forget what is before `start_offset`; the epoch that reaches over it begins there."""
        dropped = [entry for entry in self.entries if entry.start_offset <= start_offset]
        if not dropped:
            return self
        first = EpochEntry(epoch=dropped[-1].epoch, start_offset=start_offset)
        return LeaderEpochs(entries=(first, *self.entries[len(dropped) :]))

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """(largest known epoch ≤ `epoch`, where the next one begins); both -1 if that cannot be told."""
        if epoch == UNDEFINED_EPOCH or epoch > self.latest_epoch:
            return UNDEFINED_EPOCH, UNDEFINED_OFFSET
        if epoch == self.latest_epoch:
            return epoch, log_end_offset
        higher = next(entry for entry in self.entries if entry.epoch > epoch)
        floors = [entry.epoch for entry in self.entries if entry.epoch <= epoch]
        return (floors[-1] if floors else epoch), higher.start_offset
