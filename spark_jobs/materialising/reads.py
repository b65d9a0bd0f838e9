"""Which bytes to ask for at once: neighbouring batches of one object come with one read."""

from collections.abc import Iterator

import numpy as np

from spark_jobs.materialising.rows import BatchRows

WINDOW_BYTES = 16 * 2**20
"""Most bytes of one read, unless a single batch is larger."""
GAP_BYTES = 64 * 2**10
"""Bytes that are read for nothing rather than asked around."""


def plan_reads(rows: BatchRows) -> Iterator[BatchRows]:
    """`rows` in parts, each of which lies together in one object."""
    position, end = rows.headers.position, rows.headers.position + rows.headers.size
    gap = position[1:] - end[:-1]
    apart = (np.diff(rows.object_order) != 0) | (gap < 0) | (gap > GAP_BYTES)
    for together in rows.parts(np.flatnonzero(apart) + 1):
        yield from _windows(together)


def _windows(rows: BatchRows) -> Iterator[BatchRows]:
    """Neighbours cut so that each part spans at most a window; windows are those of the object.

    Where cuts fall follows from positions alone, so it does not matter which neighbours come along.
    """
    last_byte = rows.headers.position + rows.headers.size - 1
    return rows.parts(np.flatnonzero(np.diff(last_byte // WINDOW_BYTES)) + 1)
