"""`python -m tests.bench.kernels [--quick]`: every kernel beside its pure twin, and beside the CRC library.

Seconds are those of one core's own time, so that a busy machine shows the same; everything is in memory, the
best of several runs counts, and the pure twin is timed on a small part of the same data.
"""

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import google_crc32c
from rich.console import Console
from rich.table import Table

from spark_jobs.kafka.formats.record_batch import Codec
from spark_jobs.kafka.log.segment import read_batch_records, scan
from spark_jobs.kafka.producers import admission
from spark_jobs.kafka.producers.producer_state import ProducerStates
from spark_jobs.kafka.producers.verdict import Rules
from spark_jobs.kernels.admission import fold
from spark_jobs.kernels.decode import decode_batches
from spark_jobs.kernels.producers import ProducerTable
from spark_jobs.kernels.scan import scan_headers, walk_boundaries
from spark_jobs.kernels.warm import warm
from tests.bench.kernel_data import batches_of_producers, log, rows_of_producers
from tests.bench.workspace import Row, Workspace

MILLION = 1e6
GIGABYTE = 1e9
RANGE = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Volume:
    """How much is measured: bytes of log, batches to admit, and how little of both the pure twin gets."""

    log_bytes: int
    batches: int
    pure_batches: int
    repeats: int = 5


FULL = Volume(log_bytes=256 * 2**20, batches=4_000_000, pure_batches=20_000)
QUICK = Volume(log_bytes=32 * 2**20, batches=400_000, pure_batches=2_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """One row: rates in `unit`; the goal is a rate, or a ratio to the library where there is one."""

    title: str
    unit: str
    kernel: float
    pure: float | None = None
    library: float | None = None
    goal: float | None = None

    @property
    def met(self) -> bool | None:
        if self.goal is None:
            return None
        return self.library / self.kernel <= self.goal if self.library else self.kernel >= self.goal


def best(work: Callable[[], object], repeats: int) -> float:
    """Seconds of this thread's own time that the fastest of several runs took."""
    return min(_seconds(work) for _ in range(repeats))


def _seconds(work: Callable[[], object]) -> float:
    began = time.thread_time()
    work()
    return time.thread_time() - began


def scan_rate(volume: Volume, title: str, records: int) -> Rate:
    """Headers alone."""
    data = log(volume.log_bytes, records_per_batch=records)
    part = data[: len(data) // 50]
    count = scan_headers(data, check_crc=False).columns.rows
    pure_count = scan_headers(part, check_crc=False).columns.rows
    return Rate(
        title=f"header scan, {title}",
        unit="M batches/s",
        kernel=count / MILLION / best(lambda: scan_headers(data, check_crc=False), volume.repeats),
        pure=pure_count / MILLION / best(lambda: _drain_scan(part, pure_count), 1),
        goal=5,
    )


def _drain_scan(data: bytes, count: int) -> None:
    batches = scan(data, check_crc=False)
    for _ in range(count):
        next(batches)


def walk_rate(volume: Volume) -> Rate:
    """Lengths alone."""
    data = log(volume.log_bytes, records_per_batch=1)
    count = scan_headers(data, check_crc=False).columns.rows
    seconds = best(lambda: walk_boundaries(data, every=RANGE), volume.repeats)
    return Rate(
        title="walk of boundaries, 1-record batches", unit="M batches/s", kernel=count / MILLION / seconds
    )


def crc_rate(volume: Volume, title: str, records: int) -> Rate:
    """Headers and checksums, beside the library that gets all bytes in one call."""
    data = log(volume.log_bytes, records_per_batch=records)
    size = len(data) / GIGABYTE
    return Rate(
        title=f"header scan with CRC, {title}",
        unit="GB/s",
        kernel=size / best(lambda: scan_headers(data), volume.repeats),
        pure=size / best(lambda: sum(1 for _ in scan(data)), 1),
        library=size / best(lambda: google_crc32c.value(data), volume.repeats),
        goal=1.3,
    )


def admission_rate(volume: Volume, title: str, producers: int, goal: float | None = 10) -> Rate:
    """The fold of one partition, from an empty table."""
    columns = batches_of_producers(volume.batches, producers)
    rows = rows_of_producers(volume.pure_batches, producers)
    seconds = best(lambda: fold(columns, ProducerTable(), rules=Rules()), volume.repeats)
    pure = best(lambda: admission.fold(ProducerStates(), rows, rules=Rules()), 1)
    return Rate(
        title=f"admission, {title}",
        unit="M batches/s",
        kernel=columns.rows / MILLION / seconds,
        pure=len(rows) / MILLION / pure,
        goal=goal,
    )


def decode_rate(volume: Volume, codec: Codec, goal: float | None = None) -> Rate:
    """Payloads to Arrow, checksums apart."""
    data = log(volume.log_bytes // 2, records_per_batch=80, codec=codec)
    headers = scan_headers(data).columns
    part = list(scan(data, end=int(headers.position[len(headers.position) // 50 + 1])))
    seconds = best(
        lambda: sum(piece.records.num_rows for piece in decode_batches(data, headers)), volume.repeats
    )
    pure = best(lambda: [list(read_batch_records(data, batch)) for batch in part], 1)
    return Rate(
        title=f"record decode, 200-byte values, {codec.name.lower()}",
        unit="M records/s",
        kernel=int(headers.record_count.sum()) / MILLION / seconds,
        pure=80 * len(part) / MILLION / pure,
        goal=goal,
    )


def rates(volume: Volume) -> list[Rate]:
    """All rows of the table."""
    warm()
    return [
        scan_rate(volume, "1-record batches", 1),
        scan_rate(volume, "16 KiB batches", 80),
        walk_rate(volume),
        crc_rate(volume, "16 KiB batches", 80),
        crc_rate(volume, "64 KiB batches", 320),
        admission_rate(volume, "100 producers", 100),
        admission_rate(volume, "one million producers", 1_000_000, goal=None),
        decode_rate(volume, Codec.NONE, goal=3),
        decode_rate(volume, Codec.LZ4),
        decode_rate(volume, Codec.ZSTD),
    ]


def table_of(found: Sequence[Rate]) -> Table:
    """The rates as people read them."""
    table = Table("measured", "unit", "kernel", "pure twin", "times", "library", "goal", "")
    for column in table.columns[2:]:
        column.justify = "right"
    for rate in found:
        table.add_row(
            rate.title,
            rate.unit,
            f"{rate.kernel:.2f}",
            f"{rate.pure:.3f}" if rate.pure else "",
            f"{rate.kernel / rate.pure:.0f}" if rate.pure else "",
            f"{rate.library:.2f} ({rate.library / rate.kernel:.2f}x)" if rate.library else "",
            _goal(rate),
            {True: "met", False: "missed", None: ""}[rate.met],
        )
    return table


def _goal(rate: Rate) -> str:
    if rate.goal is None:
        return ""
    return f"within {rate.goal}x" if rate.library else f">= {rate.goal:g}"


def measure(space: Workspace) -> Sequence[Row]:
    """The rates as rows of the benchmark."""
    share = space.volume.growth
    volume = (
        FULL
        if share == 1
        else Volume(
            log_bytes=max(int(FULL.log_bytes * share), 2**20),
            batches=max(int(FULL.batches * share), 2000),
            pure_batches=max(int(FULL.pure_batches * share), 50),
            repeats=space.volume.times,
        )
    )
    return [
        Row(
            title=rate.title,
            data=rate.unit,
            numbers={"kernel": rate.kernel, "pure": rate.pure or 0, "library": rate.library or 0},
        )
        for rate in rates(volume)
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.kernels", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the volume")
    quick = parser.parse_args(arguments).quick
    Console().print(table_of(rates(QUICK if quick else FULL)))


if __name__ == "__main__":
    main()
