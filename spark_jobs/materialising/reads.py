"""Which bytes to ask for at once: neighbouring batches of one object come with one read."""

from collections.abc import Iterable, Iterator
from itertools import pairwise

import numpy as np

from spark_jobs.materialising.rows import BatchRows

WINDOW_BYTES = 16 * 2**20
"""Most bytes of one read, unless a single batch is larger."""
GAP_BYTES = 256 * 2**10
"""Bytes that are read for nothing rather than asked around."""
SMALL_BYTES = 128 * 2**10
"""Stretches up to this are decoded together with neighbours: a call costs as much as that many bytes."""
GATHERED_BYTES = 2**20


def gather_reads(rows: BatchRows, stretches: Iterable[slice]) -> Iterator[list[slice]]:
    """Small neighbours together; a large stretch is alone."""
    together: list[slice] = []
    total = 0
    for stretch in stretches:
        size = int(rows.headers.size[stretch].sum())
        if together and (size > SMALL_BYTES or total + size > GATHERED_BYTES):
            yield together
            together, total = [], 0
        together.append(stretch)
        total += GATHERED_BYTES if size > SMALL_BYTES else size
    if together:
        yield together


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
