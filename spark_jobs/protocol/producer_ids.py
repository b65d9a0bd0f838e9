"""Producer ids come in blocks of a thousand from the controller, one after the other (facts §7)."""

from dataclasses import dataclass, replace

BLOCK_SIZE = 1000
PREFETCH_AT = 900


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerIds:
    """A broker's supply: ids left in its block, a block fetched ahead, where the controller continues."""

    next_id: int = 0
    block_end: int = 0
    prefetched_start: int | None = None
    next_block_start: int = 0

    def allocate(self) -> tuple[int, "ProducerIds"]:
        """The next id, and the supply without it."""
        supply = self if self.next_id < self.block_end else self._next_block()
        allocated = supply.next_id
        supply = replace(supply, next_id=allocated + 1)
        if allocated == supply.block_end - BLOCK_SIZE + PREFETCH_AT:
            supply = replace(
                supply,
                prefetched_start=supply.next_block_start,
                next_block_start=supply.next_block_start + BLOCK_SIZE,
            )
        return allocated, supply

    def restart(self) -> "ProducerIds":
        """A broker that starts again has lost what was left of its blocks."""
        return ProducerIds(next_block_start=self.next_block_start)

    def _next_block(self) -> "ProducerIds":
        if self.prefetched_start is not None:
            start, after = self.prefetched_start, self.next_block_start
        else:
            start, after = self.next_block_start, self.next_block_start + BLOCK_SIZE
        return ProducerIds(next_id=start, block_end=start + BLOCK_SIZE, next_block_start=after)
