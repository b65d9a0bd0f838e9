"""Keys of sampled records: where they are, and where each known partitioner would have put them."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

import numpy as np

from spark_jobs.auditing.inputs import AuditTask
from spark_jobs.auditing.partitioners import (
    PARTITIONERS,
    Fits,
    Int64s,
    Judged,
    KeyHashes,
    judge,
    misplaced,
)
from spark_jobs.auditing.record_rows import sample_keys
from spark_jobs.protocol.hashes import KEY_HASHES

LONGEST_KEY = 1024
"""Longer ones are not hashed: a few of them would cost more than all others."""

Row = dict[str, Any]
"""A row of `partition_facts`."""


def hash_keys(task: AuditTask) -> KeyHashes:
    """The different keys that are looked at, as numbers."""
    hashes = [KEY_HASHES[each] for each in PARTITIONERS]
    found = [
        (number, producer_id, *(hashed(key) for hashed in hashes))
        for number in (each.partition.partition for each in task.inputs)
        for key, producer_id in dict(
            sample_keys(task.lake, task.records, number, task.bounds.key_sample)
        ).items()
        if len(key) <= LONGEST_KEY
    ]
    rows = np.array(found, dtype=np.int64).reshape(-1, 2 + len(hashes))
    return KeyHashes(partition=rows[:, 0], producer_id=rows[:, 1], hashes=rows[:, 2:])


def count_keys(keys: KeyHashes, number: int, fits: Fits) -> dict[str, int]:
    """Keys of a partition, and those that are elsewhere than what is established says."""
    own = keys.take(keys.partition == number)
    elsewhere = int(np.count_nonzero(misplaced(own, fits)))
    return {"keys_sampled": own.size, "keys_elsewhere": elsewhere}


def joined(found: Iterable[KeyHashes]) -> KeyHashes:
    """Keys of several tasks of one topic."""
    parts = list(found)
    return KeyHashes(
        partition=np.concatenate([each.partition for each in parts]),
        producer_id=np.concatenate([each.producer_id for each in parts]),
        hashes=np.concatenate([each.hashes for each in parts]),
    )


def judge_topics(
    found: Sequence[tuple[AuditTask, KeyHashes]], known: Mapping[str, Fits], allowed: float
) -> dict[str, tuple[KeyHashes, Judged]]:
    """What has placed the keys of each topic, from those that its tasks have looked at."""
    judged: dict[str, tuple[KeyHashes, Judged]] = {}
    for topic, same in groupby(found, key=lambda each: each[0].topic):
        together = list(same)
        keys = joined(each for _, each in together)
        if keys.size:
            count = together[0][0].partition_count
            judged[topic] = keys, judge(keys, known.get(topic, {}), count, allowed)
    return judged


def elsewhere(keys: KeyHashes, judged: Judged) -> dict[int, int]:
    """Misplaced keys by partition."""
    partitions: Int64s = np.unique(keys.partition)
    return {
        number: int(np.count_nonzero(judged.misplaced[keys.partition == number]))
        for number in partitions.tolist()
    }
