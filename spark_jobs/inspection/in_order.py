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
    """`work` of every part in order; parts are requested on demand, and few results are buffered."""
    pending: deque[Future[Result]] = deque()
    for part in parts:
        pending.append(_pool().submit(work, part))
        if len(pending) > 2 * _THREADS:
            yield pending.popleft().result()
    while pending:
        yield pending.popleft().result()


@cache
def _pool() -> ThreadPoolExecutor:
    """The same threads for all work: what they keep, they keep."""
    return ThreadPoolExecutor(_THREADS)
