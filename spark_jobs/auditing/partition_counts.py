"""How many partitions a topic has, where keys tell more than the partitions that were seen.

A copy may lack partitions, and a partition without records is never seen. So the highest number that was seen
says only how many there are at least. If Kafka's default partitioner has placed the keys, some count at or
above it puts every key where it was found; if no count does, somebody else has placed them.
"""

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]

MOST_PARTITIONS = 4096
"""Counts up to here are tried; topics with more are rare."""


def keys_elsewhere(hashes: Int64s, partitions: Int64s, count: int) -> npt.NDArray[np.bool_]:
    """Which keys, by their hash, the default partitioner puts elsewhere if there are `count` partitions."""
    elsewhere: npt.NDArray[np.bool_] = hashes % count != partitions
    return elsewhere


def likeliest_count(hashes: Int64s, partitions: Int64s, least: int) -> int:
    """The count from `least` on that explains most of the keys; the smallest of several."""
    counts = range(least, max(MOST_PARTITIONS, least) + 1)
    wrong = [int(np.count_nonzero(keys_elsewhere(hashes, partitions, count))) for count in counts]
    return counts[int(np.argmin(wrong))]
