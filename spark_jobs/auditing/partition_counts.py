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
FIRST_KEYS = 128


def keys_elsewhere(hashes: Int64s, partitions: Int64s, count: int) -> npt.NDArray[np.bool_]:
    """Which keys, by their hash, the default partitioner puts elsewhere if there are `count` partitions."""
    elsewhere: npt.NDArray[np.bool_] = hashes % count != partitions
    return elsewhere


def likeliest_count(hashes: Int64s, partitions: Int64s, least: int, *, most_wrong: int) -> int | None:
    """The count from `least` on that explains most of the keys, the smallest of several.

    None if each leaves more than `most_wrong` unexplained; the first keys show it of nearly all counts.
    """
    counts = np.arange(least, max(MOST_PARTITIONS, least) + 1)
    some, where = hashes[:FIRST_KEYS, None], partitions[:FIRST_KEYS, None]
    left = counts[np.count_nonzero(some % counts != where, axis=0) <= most_wrong].tolist()
    wrong = [int(np.count_nonzero(keys_elsewhere(hashes, partitions, count))) for count in left]
    return left[int(np.argmin(wrong))] if wrong and min(wrong) <= most_wrong else None
