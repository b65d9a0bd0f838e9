"""What kernels are measured on: a log that our own writer wrote, and headers of many producers."""

import random
from functools import cache

import numpy as np

from spark_jobs.kafka.formats.batch_builder import build_batch
from spark_jobs.kafka.formats.record_batch import Codec
from spark_jobs.kafka.formats.records import Record
from spark_jobs.kafka.producers.verdict import BatchRow
from spark_jobs.kernels.admission import BatchColumns, batch_columns
from spark_jobs.kernels.columns import NO_CONTROL_TYPE, NO_COORDINATOR_EPOCH
from tests.cases.batch_rows import data

VALUE_SIZE = 200
RECORDS_PER_BATCH = 10
_DISTINCT_BATCHES = 64
_MIDNIGHT = 1_767_225_600_000


@cache
def log(size: int, *, records_per_batch: int, codec: Codec = Codec.NONE) -> bytes:
    """About `size` bytes of batches of 200-byte values: text that compresses about as well as JSON does."""
    chance = random.Random(7)
    words = [bytes(chance.choices(b"abcdefghij0123456789 ", k=8)) for _ in range(500)]
    batches = b"".join(
        build_batch(
            records=[
                Record(
                    offset_delta=index,
                    timestamp_delta=index,
                    key=b"key-%06d" % chance.randrange(10**6),
                    value=b"".join(chance.choices(words, k=VALUE_SIZE // 8)),
                )
                for index in range(records_per_batch)
            ],
            base_timestamp=_MIDNIGHT,
            codec=codec,
            producer_id=number,
            producer_epoch=0,
            base_sequence=0,
            is_transactional=True,
        )
        for number in range(_DISTINCT_BATCHES)
    )
    return batches * (size // len(batches) + 1)


def _producers(batches: int, producers: int) -> tuple[list[int], list[int]]:
    """(producer id, first sequence) of batches that come in random order but each in its own sequence."""
    ids = np.random.default_rng(7).integers(0, producers, batches)
    order = np.argsort(ids, kind="stable")
    begins = np.flatnonzero(np.diff(ids[order], prepend=-1))
    nth = np.empty(batches, dtype=np.int64)
    nth[order] = np.arange(batches) - np.repeat(begins, np.diff(begins, append=batches))
    return ids.tolist(), (nth * RECORDS_PER_BATCH).tolist()


def batches_of_producers(batches: int, producers: int) -> BatchColumns:
    """Headers as a partition's clients send them: all are accepted."""
    ids, sequences = _producers(batches, producers)
    same = np.ones(batches, dtype=np.int64)
    return batch_columns((
        0 * same, 0 * same, (RECORDS_PER_BATCH - 1) * same, _MIDNIGHT * same, ids, 0 * same, sequences,
        RECORDS_PER_BATCH * same, NO_CONTROL_TYPE * same, NO_COORDINATOR_EPOCH * same,
    ))  # fmt: skip


def rows_of_producers(batches: int, producers: int) -> list[BatchRow]:
    """The same as rows."""
    ids, sequences = _producers(batches, producers)
    return [
        data(pid=pid, seq=sequence, count=RECORDS_PER_BATCH)
        for pid, sequence in zip(ids, sequences, strict=True)
    ]
