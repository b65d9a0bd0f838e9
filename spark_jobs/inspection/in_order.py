"""Work on all cores with results in order; for compiled code, which lets other threads run."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import TypeVar

Part = TypeVar("Part")
Result = TypeVar("Result")

_THREADS = min(os.cpu_count() or 1, 8)


def in_order(work: Callable[[Part], Result], parts: Iterable[Part]) -> Iterator[Result]:
    """`work` of every part; parts are asked for as they are needed, and few results wait to be taken."""
    waiting: deque[Future[Result]] = deque()
    for part in parts:
        waiting.append(_pool().submit(work, part))
        if len(waiting) > 2 * _THREADS:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


@cache
def _pool() -> ThreadPoolExecutor:
    """The same threads for all work: what they keep, they keep."""
    return ThreadPoolExecutor(_THREADS)
