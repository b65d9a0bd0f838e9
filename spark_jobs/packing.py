"""Work for one task: small things together, so that a task is worth its start; large ones have their own."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TypeVar

import numpy as np

Item = TypeVar("Item")


def pack(items: Iterable[Item], *, cost: Callable[[Item], int], most: int) -> Iterator[tuple[Item, ...]]:
    """Neighbours together as long as they cost at most `most`."""
    together: list[Item] = []
    total = 0
    for item in items:
        if together and total + cost(item) > most:
            yield tuple(together)
            together, total = [], 0
        together.append(item)
        total += cost(item)
    if together:
        yield tuple(together)


def spread(
    items: Sequence[Item], *, cost: Callable[[Item], int], tasks: int, smallest: int, largest: int
) -> Iterator[tuple[Item, ...]]:
    """Neighbours together, in about so many `tasks`."""
    most = fair_share(map(cost, items), tasks=tasks, smallest=smallest, largest=largest)
    return pack(items, cost=cost, most=most)


def fair_share(costs: Iterable[int], *, tasks: int, smallest: int, largest: int) -> int:
    """The most that one of about so many `tasks` may cost: it is worth its start, and can be done again."""
    share = sum(costs) // max(tasks, 1)
    slack = share // 8  # things of equal cost would otherwise just not fit
    return min(max(share + slack, smallest), largest)


def share_out(costs: Sequence[int], shares: int) -> list[range]:
    """Neighbouring items in at most `shares` ranges of about equal cost, each with at least one item."""
    if not costs:
        return []
    reached = np.cumsum(np.maximum(np.asarray(costs, dtype=np.int64), 1))
    limits = reached[-1] * (np.arange(shares) + 1) / shares
    stops = np.unique(np.searchsorted(reached, limits, side="left") + 1).clip(max=len(costs))
    return [range(start, stop) for start, stop in pairwise([0, *np.unique(stops).tolist()])]
