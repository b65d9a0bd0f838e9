"""Work on all cores whose results come in order, with few of them in memory."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from itertools import islice
from typing import TypeVar

Part = TypeVar("Part")
Result = TypeVar("Result")
THREADS = min(os.cpu_count() or 1, 8)


def in_order(
    work: Callable[[Part], Result], parts: Iterable[Part], *, ahead: int = 2 * THREADS
) -> Iterator[Result]:
    """`work` of every part in order; parts are requested on demand, and at most `ahead` results are buffered.

    `work` must not call `in_order` itself: the threads would wait for one another.
    """
    pending: deque[Future[Result]] = deque()
    try:
        for part in parts:
            pending.append(_pool().submit(work, part))
            if len(pending) > ahead:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        for future in pending:
            future.cancel()


def in_advance(work: Callable[[Part], Result], parts: Iterable[Part], *, ahead: int = 1) -> Iterator[Result]:
    """`work` of every part in order, the next `ahead` parts under way; `work` may call `in_order`."""
    remaining = iter(parts)
    threads = ThreadPoolExecutor(ahead + 1)
    try:
        pending = deque(threads.submit(work, part) for part in islice(remaining, ahead + 1))
        while pending:
            yield pending.popleft().result()
            pending.extend(threads.submit(work, part) for part in islice(remaining, 1))
    finally:
        threads.shutdown(wait=False, cancel_futures=True)


@cache
def _pool() -> ThreadPoolExecutor:
    """One pool for all work, so that threads keep their arenas."""
    return ThreadPoolExecutor(THREADS)


os.register_at_fork(after_in_child=_pool.cache_clear)  # threads are not inherited
