"""Bytes of a file where the system has them already, for those who look at them once and keep none.

A copy of what is in the page cache costs as much as a checksum of it. Touching a mapped page that cannot be
read ends the process, so every page is asked for first: what fails then is read, and the read says why.
"""

import mmap
import os
from functools import cache

SMALLEST_MAPPED = 2**20
"""Fewer bytes are read: a mapping has its price, too."""
_POPULATE_READ = 22
"""Linux' MADV_POPULATE_READ, since 5.14: an error instead of a signal for a page that cannot be had."""


@cache
def can_map() -> bool:
    """Whether this system brings pages in on request."""
    try:
        with mmap.mmap(-1, mmap.PAGESIZE) as anywhere:
            anywhere.madvise(_POPULATE_READ)
    except (OSError, AttributeError):
        return False
    return True


def map_range(file: int, start: int, end: int) -> memoryview | None:
    """The bytes from `start` to `end`, all of them in memory; None where they cannot be mapped.

    The mapping lasts as long as somebody refers to it.
    """
    if end - start < SMALLEST_MAPPED or not can_map():
        return None
    before = start % mmap.ALLOCATIONGRANULARITY
    os.posix_fadvise(file, start, 2 * (end - start), os.POSIX_FADV_WILLNEED)  # what comes next, too
    try:
        mapped = mmap.mmap(file, end - start + before, prot=mmap.PROT_READ, offset=start - before)
        mapped.madvise(_POPULATE_READ)
    except (OSError, ValueError):  # it ends before `end` by now, or a disk fails
        return None
    return memoryview(mapped)[before:]
