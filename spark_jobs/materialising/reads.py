"""Which bytes to ask for at once: neighbouring batches of one object come with one read."""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from spark_jobs.materialising.rows import BatchRows

WINDOW_BYTES = 16 * 2**20
"""Most bytes of one read, unless a single batch is larger."""
GAP_BYTES = 64 * 2**10
"""Bytes that are read for nothing rather than asked around."""


def plan_reads(rows: BatchRows) -> Iterator[slice]:
    """Neighbouring rows that lie together in one object, each stretch within a window or one batch."""
    position, end = rows.headers.position, rows.headers.position + rows.headers.size
    gap = position[1:] - end[:-1]
    apart = (np.diff(rows.object_order) != 0) | (gap < 0) | (gap > GAP_BYTES)
    # Windows are those of the object: where cuts fall does not depend on which neighbours come along.
    crossed = np.diff((end - 1) // WINDOW_BYTES) != 0
    edges = [0, *(np.flatnonzero(apart | crossed) + 1).tolist(), rows.rows]
    for start, stop in pairwise(edges):
        if start < stop:
            yield slice(start, stop)
