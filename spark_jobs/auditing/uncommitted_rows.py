"""Rows that should not be there: within offsets of a transaction of their producer that did not commit."""

import numpy as np

from spark_jobs.auditing.outcomes import Outcomes
from spark_jobs.auditing.sequence_spans import Spans

_FOUND, _SPAN = 0, 1


def count_uncommitted(spans: Spans, uncommitted: Outcomes) -> int:
    """Offsets of `spans` that lie in `uncommitted`, which is sorted by producer and first offset.

    The transactions of a producer do not overlap, so the last one that begins before a span ends is the one
    to look at.
    """
    if not uncommitted.first_offset.size or not spans.producer_id.size:
        return 0
    before = _last_before(spans, uncommitted)
    is_same = (before >= 0) & (uncommitted.producer_id[before] == spans.producer_id)
    first = np.maximum(uncommitted.first_offset[before], spans.first_offset)
    last = np.minimum(uncommitted.last_offset[before], spans.last_offset)
    return int(np.maximum(last - first + 1, 0)[is_same].sum())


def _last_before(spans: Spans, uncommitted: Outcomes) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    """For each span the last transaction, by producer and offset, that begins at or before its end."""
    size = uncommitted.first_offset.size
    producer = np.concatenate((uncommitted.producer_id, spans.producer_id))
    offset = np.concatenate((uncommitted.first_offset, spans.last_offset))
    kind = np.repeat((_FOUND, _SPAN), (size, spans.producer_id.size))
    order = np.lexsort((kind, offset, producer))
    begun = np.cumsum(kind[order] == _FOUND) - 1
    before = np.empty(order.size, dtype=np.int64)
    before[order] = begun
    return before[size:]
