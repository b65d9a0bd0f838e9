"""Keys of topics that seem to lie elsewhere, looked at again: perhaps there are more partitions than seen."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np

from spark_jobs.auditing.inputs import AuditTask
from spark_jobs.auditing.partition_counts import Int64s, keys_elsewhere, likeliest_count
from spark_jobs.auditing.record_rows import sample_keys
from spark_jobs.protocol.hashes import partition_for_key

MOST_KEYS = 2000
"""Of a topic, to find out how many partitions it has."""
ALL_HASHES = 2**31
"""So many partitions that a key's partition is its hash."""

Row = dict[str, Any]
"""A row of `partition_facts`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyHashes:
    """Sampled keys of some partitions of one topic, by their hashes."""

    partition: Int64s
    hash: Int64s


def hash_keys(task: AuditTask) -> KeyHashes:
    """The keys that are looked at, as numbers."""
    found = [
        (number, partition_for_key(key, ALL_HASHES))
        for number in (each.partition.partition for each in task.inputs)
        for key in sample_keys(task.lake, task.records, number, task.bounds.key_sample)
    ]
    pairs = np.array(found, dtype=np.int64).reshape(-1, 2)
    return KeyHashes(partition=pairs[:, 0], hash=pairs[:, 1])


def count_keys(keys: KeyHashes, number: int, count: int) -> dict[str, int]:
    """Keys of a partition, and those that the default partitioner puts elsewhere among `count` partitions."""
    own = keys.hash[keys.partition == number]
    return {"keys_sampled": own.size, "keys_elsewhere": int(np.count_nonzero(own % count != number))}


def doubtful_topics(rows: Iterable[Row], allowed: float) -> set[str]:
    """Topics with more keys elsewhere than allowed, if as many partitions exist as were seen."""
    in_order = sorted(rows, key=lambda row: str(row["topic"]))
    sums = {topic: _sums(same) for topic, same in groupby(in_order, key=lambda row: str(row["topic"]))}
    return {topic for topic, (sampled, elsewhere) in sums.items() if elsewhere > allowed * sampled}


def _sums(rows: Iterable[Row]) -> tuple[int, int]:
    pairs = [(row["keys_sampled"], row["keys_elsewhere"]) for row in rows]
    return sum(sampled for sampled, _ in pairs), sum(elsewhere for _, elsewhere in pairs)


def recount(topic: str, found: Sequence[KeyHashes], least: int, allowed: float) -> dict[tuple[str, int], int]:
    """Keys elsewhere by topic and partition, if some other number of partitions explains nearly all keys."""
    partitions = np.concatenate([each.partition for each in found])
    hashes = np.concatenate([each.hash for each in found])
    step = max(partitions.size // MOST_KEYS, 1)
    most_wrong = int(allowed * hashes.size)
    count = likeliest_count(hashes[::step], partitions[::step], least, most_wrong=most_wrong)
    if count is None:
        return {}
    wrong = keys_elsewhere(hashes, partitions, count)
    if np.count_nonzero(wrong) > most_wrong:
        return {}
    return {
        (topic, number): int(np.count_nonzero(wrong[partitions == number]))
        for number in np.unique(partitions).tolist()
    }
