"""Business ids of a run against histories of several sizes: `python -m tests.bench.ids [--spark]`.

A sixteenth of the hash range is measured, in one process: a whole run has sixteen times as much, divided by
its cores. The hashes of history are generated, of 512 run dates in one sorted run. With `--spark`, Spark
compares the same ids by `dropDuplicates` over all history, and by an anti-join.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from spark_jobs.config.dedup import IdRule
from spark_jobs.kernels.ids import bucket_range
from spark_jobs.lake.file_store import FileStore
from spark_jobs.lake.id_index import IdIndex, SortedRun, day_number, put_firsts, put_hashes
from spark_jobs.pipeline.deduplicate.job import OCCURRENCES, BucketContext, hash_key
from spark_jobs.pipeline.deduplicate.worker import hash_column, judge_bucket
from spark_jobs.tables.deduplicate import FIRST_SCHEMA

SHARE = 16
RUN_IDS = 10_000_000
HISTORIES = (10_000_000, 100_000_000, 1_000_000_000)
RULE = IdRule(scope=("orders",), id="key")
TODAY = day_number(date(2026, 3, 2))
REPEATED = 1000
"""One id in so many of the run is in history, too."""

IdArray = Any
"""An Arrow array of binary values."""


def uuids(random: np.random.Generator, count: int) -> IdArray:
    """Random ids of 36 bytes."""
    digits = np.frombuffer(b"0123456789abcdef", dtype=np.uint8)
    data = digits[random.integers(0, 16, (count, 36), dtype=np.uint8)]
    data[:, [8, 13, 18, 23]] = ord("-")
    return of_width(data)


def ulids(random: np.random.Generator, count: int) -> IdArray:
    """A common prefix of ten letters of time, and sixteen random ones."""
    letters = np.frombuffer(b"0123456789ABCDEFGHJKMNPQRSTVWXYZ", dtype=np.uint8)
    data = letters[random.integers(0, 32, (count, 26), dtype=np.uint8)]
    data[:, :10] = np.frombuffer(b"01KJ3M5Z8Q", dtype=np.uint8)
    return of_width(data)


def counters(_: np.random.Generator, count: int) -> IdArray:
    """Numbers that grow."""
    return pa.array(np.arange(10**12, 10**12 + count).astype("S13"), pa.large_binary())


def of_width(data: npt.NDArray[np.uint8]) -> IdArray:
    """Rows of bytes as ids."""
    ends = np.arange(len(data) + 1, dtype=np.int64) * data.shape[1]
    buffers = [None, pa.py_buffer(ends.tobytes()), pa.py_buffer(data.tobytes())]
    return pa.Array.from_buffers(pa.large_binary(), len(data), buffers)


def history(store: FileStore, size: int, repeats: pa.Table) -> IdIndex:
    """An index of `size` ids: hashes are generated, and first records exist for the `repeats` only."""
    random, first_last = np.random.default_rng(size), bucket_range(0, SHARE)
    hashes = random.integers(*first_last, size // SHARE, dtype=np.int64)
    known = np.asarray(repeats.column("hash").combine_chunks())
    hashes[: known.size] = known
    days = (TODAY - 1 - random.integers(0, 512, hashes.size)).astype(np.int32)
    days[: known.size] = TODAY - 1
    order = np.argsort(hashes, kind="stable")
    pieces = [put_hashes(store, hashes[order], days[order])]
    empty = put_hashes(store, hashes[:0], days[:0])
    run = SortedRun(first=TODAY - 512, last=TODAY - 1, level=3, pieces=(*pieces, *[empty] * (SHARE - 1)))
    firsts = (put_firsts(store, repeats), *[put_firsts(store, FIRST_SCHEMA.empty_table())] * (SHARE - 1))
    return IdIndex(
        rule=RULE.digest,
        hashes=(run,),
        firsts=(SortedRun(first=TODAY - 1, last=TODAY - 1, pieces=firsts),),
    )


def occurrences(ids: IdArray) -> pa.Table:
    """Records of today with these ids, those of the first bucket."""
    hashes = hash_column(ids, hash_key(RULE))
    first, last = bucket_range(0, SHARE)
    chosen = np.flatnonzero((hashes >= first) & (hashes <= last))
    count = chosen.size
    zeros = np.zeros(count, dtype=np.int64)
    columns: dict[str, Any] = {name: pa.array(zeros) for name in OCCURRENCES.names}
    columns |= {
        "day": pa.array(zeros + TODAY),
        "row": pa.array(np.arange(count)),
        "offset": pa.array(np.arange(count)),
        "hash": pa.array(hashes[chosen]),
        "id": ids.take(chosen).cast(pa.binary()),
        "topic": pa.array(["orders"]).take(zeros),
        "transactional_id": pa.nulls(count, pa.string()),
    }
    return pa.table([columns[name] for name in OCCURRENCES.names], names=OCCURRENCES.names).cast(OCCURRENCES)


def measure(place: Path, name: str, make: Callable[..., IdArray]) -> Iterator[str]:
    """A line for each size of history."""
    rows = occurrences(make(np.random.default_rng(1), RUN_IDS))
    repeats = rows.take(np.arange(0, rows.num_rows, REPEATED)).sort_by("hash").select(FIRST_SCHEMA.names)
    for size in HISTORIES:
        store = FileStore(str(place / f"{name}-{size}"))
        index = history(store, size, repeats)
        context = BucketContext(rule=RULE, index=index, buckets=SHARE, folder="parts", lake=store)
        began, used = time.perf_counter(), time.process_time()
        result = judge_bucket(context, 0, rows)
        assert result.duplicates == repeats.num_rows
        wall, cpu = time.perf_counter() - began, time.process_time() - used
        yield (
            f"| {name} | {size // 10**6:,} M | {index.bytes / index.ids:.2f} "
            f"| {index.bytes * SHARE / 1e9:.2f} GB | {wall * SHARE:.0f} s | {cpu * SHARE:.0f} s |"
        )


def compare_with_spark(place: Path, size: int) -> Iterator[str]:
    """The same sixteenth by Spark: history and run as Parquet files of ids."""
    from pyspark.sql import SparkSession

    paths = {}
    for name, seed, count in (("history", 2, size // SHARE), ("run", 1, RUN_IDS // SHARE)):
        paths[name] = str(place / f"{name}-{size}.parquet")
        ids = uuids(np.random.default_rng(seed), count).cast(pa.binary())
        pq.write_table(pa.table({"id": ids}), paths[name])
    spark = SparkSession.builder.master("local[1]").config("spark.driver.memory", "2g").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    old, new = (spark.read.parquet(paths[name]) for name in ("history", "run"))
    spark.range(1).count()
    for name, frame in (
        ("dropDuplicates", old.union(new).dropDuplicates(["id"])),
        ("anti-join", new.join(old, "id", "left_anti").dropDuplicates(["id"])),
    ):
        began = time.perf_counter()
        frame.write.format("noop").mode("overwrite").save()
        yield f"| Spark {name} | {size // 10**6:,} M | {(time.perf_counter() - began) * SHARE:.0f} s |"
    spark.stop()


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spark", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        print(f"one process of {os.cpu_count()} cores; times are of a sixteenth, times sixteen")
        if arguments.spark:
            for size in HISTORIES[:2]:
                for line in compare_with_spark(Path(place), size):
                    print(line, flush=True)
            return
        for name, make in (("UUID", uuids), ("ULID", ulids), ("counter", counters)):
            for line in measure(Path(place), name, make):
                print(line, flush=True)


if __name__ == "__main__":
    main()
