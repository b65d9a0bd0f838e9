"""The floor: one process per core that reads, checks, decompresses, decodes and writes the same Parquet.

No verdicts and no Spark: which batches to write it knows beforehand, from how the run was made. Nothing is
synchronised to disk, hashed or entered in a catalog, either.
"""

import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from spark_jobs.execution.classic import KEEP_MEMORY
from spark_jobs.kafka.formats.record_batch import Codec
from spark_jobs.kernels.columns import HeaderColumns
from spark_jobs.kernels.decode import decode_batches
from spark_jobs.kernels.scan import scan_headers
from spark_jobs.kernels.warm import warm
from spark_jobs.pipeline.materialise.batch_rows import NONE, BatchRows
from spark_jobs.pipeline.materialise.decoding import PIECE_BYTES, DecodedPiece
from spark_jobs.pipeline.materialise.outcomes import Outcomes, View
from spark_jobs.pipeline.materialise.record_table import RecordTable
from spark_jobs.pipeline.materialise.table_files import GROUP_BYTES
from spark_jobs.tables.materialise import RECORDS, as_written, record_options
from tests.bench.measure import children_cpu_seconds
from tests.bench.mix_data import PRODUCERS, objects_of, partition_of
from tests.bench.runs import DAY
from tests.bench.workspace import Row, Workspace

WINDOW_BYTES = 16 * 2**20
SCHEMA = as_written(RECORDS.schema)
OPTIONS = {
    "compression": "zstd",
    "write_page_checksum": True,
    "store_schema": False,
    **record_options(SCHEMA),
}
ALL = View(first_offset=0, end_offset=2**63 - 1, outcomes=Outcomes())


@dataclass(frozen=True, slots=True, kw_only=True)
class Floor:
    """How long it took on the clock and on all cores together, and how many records were written."""

    seconds: float
    cpu_seconds: float
    records: int


def run_floor(capture: Path, output: Path, processes: int | None = None) -> Floor:
    """Write the records of `capture` below `output`; processes and compiled code are ready before."""
    partitions = sorted({partition_of(path) for path in objects_of(capture)})
    os.environ.update(KEEP_MEMORY)
    with get_context("forkserver").Pool(processes or os.cpu_count(), initializer=warm) as pool:
        pool.map(len, [""] * 64, chunksize=1)
        before, began = children_cpu_seconds(), time.perf_counter()
        tasks = [(capture, partition, output) for partition in partitions]
        records = sum(pool.starmap(write_partition, tasks, chunksize=1))
        return Floor(
            seconds=time.perf_counter() - began,
            cpu_seconds=children_cpu_seconds() - before,
            records=records,
        )


def write_partition(capture: Path, partition: int, output: Path) -> int:
    """One partition's records in one file; how many there were."""
    records, table = 0, RecordTable(partition=partition, view=ALL, run_date=DAY)
    with pq.ParquetWriter(output / f"orders-{partition}.parquet", SCHEMA, **OPTIONS) as writer:
        for group in _groups(map(table.rows_of, _pieces(capture, partition))):
            records += group.num_rows
            writer.write_table(group)
    return records


def _groups(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """Tables together, as many as make a row group."""
    held, size = list[pa.Table](), 0
    for table in tables:
        held.append(table)
        size += table.nbytes
        if size >= GROUP_BYTES:
            yield pa.concat_tables(held)
            held, size = [], 0
    if held:
        yield pa.concat_tables(held)


def _pieces(capture: Path, partition: int) -> Iterator[DecodedPiece]:
    end_offset, seen = 0, np.empty(0, dtype=np.int64)
    for path in objects_of(capture):
        if partition_of(path) == partition:
            for buffer, headers in read_windows(path):
                keys = np.concatenate((seen, _key(headers)))
                is_new = _first_of_their_kind(keys)[seen.size :]
                seen = keys[-2 * PRODUCERS :]
                wanted, offsets, end_offset = _placed(headers, is_new, end_offset)
                chosen = headers.pick(wanted)._replace(base_offset=offsets[wanted])
                for piece in decode_batches(buffer, chosen, budget=PIECE_BYTES):
                    yield DecodedPiece(rows=_rows(chosen), found=piece.found, problems=())


def read_windows(path: Path) -> Iterator[tuple[bytes, HeaderColumns]]:
    """Whole batches, as many as fit into a window; every checksum has been found right."""
    with path.open("rb", buffering=0) as file:
        position = 0
        while buffer := os.pread(file.fileno(), WINDOW_BYTES, position):
            found = scan_headers(buffer)
            yield buffer, found.columns
            position += found.stop.position


def _key(headers: HeaderColumns) -> npt.NDArray[np.int64]:
    """Names a batch by producer id, epoch and sequence."""
    return headers.producer_id << 40 | headers.producer_epoch.astype(np.int64) << 24 | headers.base_sequence


def _first_of_their_kind(keys: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    first = np.zeros(keys.size, dtype=np.bool_)
    first[np.unique(keys, return_index=True)[1]] = True
    return first


def _placed(
    headers: HeaderColumns, is_new: npt.NDArray[np.bool_], end_offset: int
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.int64], int]:
    """Which batches a consumer gets, their offsets, and where the log ends after them."""
    is_data = headers.base_sequence >= 0
    taken = is_new | ~is_data
    counts = np.where(taken, headers.record_count, 0).astype(np.int64)
    ends: npt.NDArray[np.int64] = end_offset + np.cumsum(counts, dtype=np.int64)
    number = headers.producer_epoch.astype(np.int64) * PRODUCERS + headers.producer_id % 1000
    return taken & is_data & (number % 10 != 0), ends - headers.record_count, int(ends[-1])


def _rows(headers: HeaderColumns) -> BatchRows:
    return BatchRows(
        headers=headers,
        is_accepted=np.ones(headers.rows, dtype=np.bool_),
        object_order=np.zeros(headers.rows, dtype=np.int32),
        txn_first_offset=np.full(headers.rows, NONE, dtype=np.int64),
    )


def measure(space: Workspace) -> Sequence[Row]:
    """Every codec."""
    return [space.best(partial(floor_row, space, codec)) for codec in space.volume.codecs]


def floor_row(space: Workspace, codec: Codec) -> Row:
    """The records of the run in one codec."""
    capture = space.capture(codec)
    with tempfile.TemporaryDirectory(dir=space.home) as output:
        found = run_floor(capture, Path(output))
    return Row(
        title="floor",
        data=codec.name.lower(),
        seconds=found.seconds,
        cpu_seconds=found.cpu_seconds,
        records=found.records,
        bytes=sum(path.stat().st_size for path in objects_of(capture)),
    )
