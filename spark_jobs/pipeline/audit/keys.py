"""Keys of sampled records: where they are, and where each known partitioner would have put them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.kafka.formats.record_batch import NO_TIMESTAMP
from spark_jobs.kafka.partitioners import KEY_HASHES
from spark_jobs.kernels.record_rows import RecordColumns
from spark_jobs.lake.object_store import ObjectStore
from spark_jobs.lake.parquet_file import iter_groups
from spark_jobs.pipeline.audit.job import AuditTask
from spark_jobs.pipeline.audit.partitioners import (
    PARTITIONERS,
    Fits,
    Int64s,
    JudgedKeys,
    KeyHashes,
    judge,
    misplaced,
)

# Rows of a topic's table: only the columns and row groups that the audit needs.

PARTITION = "partition"
_OUT_OF_RANGE = "timestamp_out_of_range"
_COLUMNS = [*RecordColumns._fields, _OUT_OF_RANGE]
_BEYOND = 2**63 - 1
"""Microseconds: later than any timestamp that a table can store."""
KEY_COLUMNS = [PARTITION, "key", "producer_id"]
KEYS_AT_A_TIME = 4096
"""Few keys are sampled, and to decode all would cost more than everything else that is read."""


def iter_records(lake: ObjectStore, key: str, first: int, last: int) -> Iterator[tuple[int, RecordColumns]]:
    """Rows of the partitions `first` to `last` in the order of the file, each part of one partition."""
    for part in iter_groups(lake, key, PARTITION, first, last, columns=_COLUMNS):
        yield from _by_partition(_columns(part))


def sample_keys(lake: ObjectStore, keys: Sequence[str], partition: int, most: int) -> list[tuple[bytes, int]]:
    """Keys and producer ids of up to `most` records from where the partition begins; without a key, none."""
    parts = (
        part
        for key in keys
        for part in iter_groups(
            lake, key, PARTITION, partition, partition, columns=KEY_COLUMNS, rows=KEYS_AT_A_TIME
        )
    )
    found: list[tuple[bytes | None, int]] = []
    for part in parts:
        rows = part.filter(pc.equal(part.column(PARTITION), pa.scalar(partition, pa.int32())))
        first = rows.slice(0, most - len(found))
        found += zip(*(first.column(name).to_pylist() for name in KEY_COLUMNS[1:]), strict=True)
        if len(found) >= most:
            break
    return [(key, producer_id) for key, producer_id in found if key is not None]


def _columns(part: pa.RecordBatch) -> RecordColumns:
    columns = {name: part.column(name) for name in RecordColumns._fields}
    columns["timestamp"] = _micros(columns["timestamp"], part.column(_OUT_OF_RANGE))
    return RecordColumns(**{name: np.asarray(column) for name, column in columns.items()})


def _micros(stored: "pa.Array[Any]", out_of_range: "pa.Array[Any]") -> "pa.Array[Any]":
    """Timestamps as numbers: -1 for none, a very late one for what the table cannot store as a timestamp."""
    micros = stored.cast(pa.int64())
    if not micros.null_count:
        return micros
    return pc.coalesce(
        micros, pc.if_else(out_of_range.is_valid(), pa.scalar(_BEYOND), pa.scalar(NO_TIMESTAMP))
    )


def _by_partition(rows: RecordColumns) -> Iterator[tuple[int, RecordColumns]]:
    changes = np.flatnonzero(rows.partition[1:] != rows.partition[:-1]) + 1
    cuts = [0, *changes.tolist(), rows.partition.size]
    for start, stop in pairwise(cuts):
        if start < stop:
            yield int(rows.partition[start]), rows.part(start, stop)


LONGEST_KEY = 1024
"""Longer ones are not hashed: a few of them would cost more than all others."""

Row = dict[str, Any]
"""A row of `partition_facts`."""


def hash_keys(task: AuditTask) -> KeyHashes:
    """The hashes of the sampled keys, each key once."""
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
    """Keys of a partition, and those that are not where the established partitioner puts them."""
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
) -> dict[str, tuple[KeyHashes, JudgedKeys]]:
    """What has placed the keys of each topic, from those that its tasks have sampled."""
    judged: dict[str, tuple[KeyHashes, JudgedKeys]] = {}
    for topic, same in groupby(found, key=lambda each: each[0].topic):
        together = list(same)
        keys = joined(each for _, each in together)
        if keys.size:
            count = together[0][0].partition_count
            judged[topic] = keys, judge(keys, known.get(topic, {}), count, allowed)
    return judged


def elsewhere(keys: KeyHashes, judged: JudgedKeys) -> dict[int, int]:
    """Misplaced keys by partition."""
    partitions: Int64s = np.unique(keys.partition)
    return {
        number: int(np.count_nonzero(judged.misplaced[keys.partition == number]))
        for number in partitions.tolist()
    }
