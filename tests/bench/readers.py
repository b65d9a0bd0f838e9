"""Readers of the log that Onceover accepted, `read_log`, `kafka-log` and `query`, and what is used instead.

All read the records that a read_committed consumer gets. ConsumerPerformance and Spark's Kafka source get
them from a live broker that was started on the same log.
"""

import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import duckdb
import pyarrow.parquet as pq

from spark_jobs.kernels.decode import decode_batches
from spark_jobs.kernels.scan import scan_headers
from spark_jobs.reading.in_order import in_order
from spark_jobs.reading.query import open_log
from spark_jobs.reading.read_log import plan_pieces, read_log
from spark_jobs.reading.read_plan import PlannedRead, ReadOptions
from spark_jobs.reading.records import DECODED_BYTES
from spark_jobs.reading.stored_log import find_partitions
from tests.bench.live_broker import SEGMENT_BYTES, consume, spark_rows, spark_works
from tests.bench.measure import own_cpu_seconds
from tests.bench.onceover import accepted_log, committed_records
from tests.bench.spark_kafka import TUNED_WORKS, WORKS
from tests.bench.workspace import Row, Workspace
from tests.broker.adoption import adopt
from tests.broker.judge import Broker, JudgeUnavailableError, kafka_jars

DECODING, READ_LOG, SOURCE = "decoding alone", "read_log", "Spark kafka-log"
QUERY, PARQUET = "query", "DuckDB on Parquet"
COUNT = "SELECT sum(n) FROM (SELECT key, count(*) AS n FROM {records} GROUP BY key)"


def measure(space: Workspace) -> Sequence[Row]:
    """Ours first; a rival that cannot be had on this machine says so in its row."""
    log = accepted_log(space, space.volume.compared)
    rows = [
        *in_turn(space, lambda: decoding_row(space, log), lambda: read_log_row(space, log)),
        *source_rows(space, log),
        space.best(lambda: query_row(space, log)),
        space.best(lambda: parquet_row(space, log)),
        *rivals(space, log),
    ]
    check_records(rows, committed_records(space, space.volume.compared))
    return rows


def in_turn(space: Workspace, *works: Callable[[], Row]) -> list[Row]:
    """Works one after the other, several times; of each the least seconds, and the least CPU seconds."""
    turns = [[space.best(work, 1) for work in works] for _ in range(space.volume.times)]
    return [
        replace(
            runs[0],
            seconds=min(row.seconds for row in runs),
            cpu_seconds=min(row.cpu_seconds for row in runs),
        )
        for runs in zip(*turns, strict=True)
    ]


def check_records(rows: Sequence[Row], committed: int) -> None:
    """Every reader must have got the records that were committed; a row without records did not count any."""
    wrong = {row.title: row.records for row in rows if row.records not in {0, committed}}
    if wrong:
        raise AssertionError(f"expected {committed} records, found {wrong}")


def _timed(space: Workspace, title: str, log: Path, work: Callable[[], int]) -> Row:
    before, began = own_cpu_seconds(), time.perf_counter()
    records = work()
    return Row(
        title=title,
        data=space.volume.compared.name.lower(),
        seconds=time.perf_counter() - began,
        cpu_seconds=own_cpu_seconds() - before,
        records=records,
        bytes=sum(path.stat().st_size for path in log.glob("*/*.log")),
    )


def decoding_row(space: Workspace, log: Path) -> Row:
    """Reading, checking, decompressing and decoding to Arrow on all cores, of batches known beforehand."""
    pieces = list(plan_pieces(find_partitions(log), ReadOptions()))
    return _timed(space, DECODING, log, lambda: sum(in_order(_decode, pieces)))


def _decode(piece: PlannedRead) -> int:
    with piece.file.viewed(piece.start, piece.end) as data:
        headers = scan_headers(data).columns.pick(piece.mask)
        return sum(each.records.num_rows for each in decode_batches(data, headers, budget=DECODED_BYTES))


def read_log_row(space: Workspace, log: Path) -> Row:
    """All columns of all records, from the path on."""
    return _timed(space, READ_LOG, log, lambda: sum(batch.num_rows for batch in read_log(log)))


def source_rows(space: Workspace, log: Path) -> list[Row]:
    """What Spark does with `kafka-log`, in a session of its own, as Spark's Kafka source is measured."""
    row = Row(title=SOURCE, data=space.volume.compared.name.lower())
    tuned = replace(row, title=f"{SOURCE}, tuned session")
    with tempfile.TemporaryDirectory(dir=space.home) as folder:
        return [
            *spark_works("kafka-log", str(log), Path(folder), WORKS, row=row),
            *spark_works("kafka-log", str(log), Path(folder), TUNED_WORKS, row=tuned, tuned=True),
        ]


def query_row(space: Workspace, log: Path) -> Row:
    """Counting by key in the log."""
    return _timed(space, QUERY, log, lambda: _count(open_log(log), "records"))


def parquet_row(space: Workspace, log: Path) -> Row:
    """Counting by key in the same records as Parquet, written beforehand."""
    with tempfile.TemporaryDirectory(dir=space.home) as folder:
        file = Path(folder, "records.parquet")
        reader = read_log(log)
        with pq.ParquetWriter(file, reader.schema, compression="zstd") as writer:
            for batch in reader:
                writer.write_batch(batch)
        row = _timed(space, PARQUET, log, lambda: _count(duckdb.connect(), f"'{file}'"))
        return replace(row, bytes=file.stat().st_size)


def _count(connection: duckdb.DuckDBPyConnection, records: str) -> int:
    found = connection.execute(COUNT.format(records=records)).fetchone()
    assert found is not None
    return int(found[0])


def rivals(space: Workspace, log: Path) -> list[Row]:
    """ConsumerPerformance and Spark's Kafka source on one broker."""
    data = space.volume.compared.name.lower()
    try:
        kafka_jars()
    except JudgeUnavailableError as problem:
        space.on_progress(f"left out: {problem}")
        return [Row(title="live broker", note=str(problem))]
    with tempfile.TemporaryDirectory(dir=space.home) as folder:
        broker = Broker(Path(folder, "broker"))
        adopt(broker, {"orders": (len(list(log.iterdir())), "CreateTime")}, log, SEGMENT_BYTES)
        try:
            records = committed_records(space, space.volume.compared)
            return [
                space.best(lambda: consume(broker, Path(folder), data, records)),
                *spark_rows(broker, Path(folder), data, WORKS),
            ]
        finally:
            broker.stop()
