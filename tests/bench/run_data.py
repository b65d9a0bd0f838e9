"""Synthetic runs of header-only size: idempotent producers whose batches have one empty record each.

What is judged up to `resolve` are headers, so the smallest valid batch shows the cost of a batch and nothing
else. Batches are made by the million in arrays; only their checksums need a compiled loop.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from spark_jobs.kafka.formats.batch_builder import build_batch
from spark_jobs.kafka.formats.record_batch import CRC_OFFSET, CRC_START
from spark_jobs.kafka.formats.records import Record
from spark_jobs.kernels.compile import kernel
from spark_jobs.kernels.crc import crc32c, library_address

NOON = 1_714_564_800_000
"""2024-05-01 12:00 UTC."""
BATCHES_AT_A_TIME = 1 << 20
TIMESTAMPS, PRODUCER_ID, SEQUENCE = (27, 35), 43, 53


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """How much arrives, and from how many; every partition hears from all producers in turn."""

    batches: int
    partitions: int = 8
    producers: int = 1000
    objects_per_partition: int = 2
    """Few and large, so that objects are split."""


@kernel
def seal(rows: npt.NDArray[np.uint8], flat: npt.NDArray[np.uint8], library: int) -> None:
    size = rows.shape[1]
    for row in range(rows.shape[0]):
        crc = crc32c(library, flat, row * size + CRC_START, size - CRC_START)
        for byte in range(4):
            rows[row, CRC_OFFSET + byte] = crc >> (24 - 8 * byte) & 0xFF


def make_batches(first: int, count: int, producers: int) -> bytes:
    """Batches number `first` and on of a partition, one after the other."""
    template = build_batch(
        records=[Record(offset_delta=0, timestamp_delta=0, key=None, value=b"")],
        base_timestamp=NOON,
        producer_id=0,
        producer_epoch=0,
        base_sequence=0,
    )
    rows = np.tile(np.frombuffer(template, dtype=np.uint8), (count, 1))
    number = np.arange(first, first + count, dtype=np.int64)
    for place in TIMESTAMPS:
        _put(rows, place, (NOON + number // 1000).astype(">i8"))
    _put(rows, PRODUCER_ID, (1000 + number % producers).astype(">i8"))
    _put(rows, SEQUENCE, (number // producers).astype(">i4"))
    seal(rows, rows.reshape(-1), library_address())
    return rows.tobytes()


def _put(rows: npt.NDArray[np.uint8], place: int, values: npt.NDArray[np.generic]) -> None:
    rows[:, place : place + values.itemsize] = values.view(np.uint8).reshape(len(rows), values.itemsize)


def write_run(root: Path, run: Run) -> int:
    """Writes the captures of 2024-05-01 below `root`, unless they are there; how many bytes they are."""
    per_object = run.batches // (run.partitions * run.objects_per_partition)
    for partition in range(run.partitions):
        directory = root / "dt=2024-05-01" / f"orders-{partition}"
        directory.mkdir(parents=True, exist_ok=True)
        for number in range(run.objects_per_partition):
            _write_object(directory / f"{number:04d}", number * per_object, per_object, run.producers)
    return sum(path.stat().st_size for path in root.rglob("*") if path.is_file())


def _write_object(path: Path, first: int, count: int, producers: int) -> None:
    if path.exists():
        return
    unfinished = path.with_name(f"_{path.name}")
    with unfinished.open("wb") as file:
        for start in range(first, first + count, BATCHES_AT_A_TIME):
            size = min(BATCHES_AT_A_TIME, first + count - start)
            file.write(make_batches(start, size, producers))
    unfinished.replace(path)
