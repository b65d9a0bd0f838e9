"""DuckDB on records that were decoded for it: duplicates out, aborted transactions out, Parquet."""

import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from spark_jobs.kafka.formats.control_record import ControlType
from spark_jobs.kernels.columns import HeaderColumns
from spark_jobs.kernels.decode import decode_batches
from spark_jobs.pipeline.materialise.decoding import PIECE_BYTES
from tests.bench.floor import read_windows
from tests.bench.mix_data import objects_of, partition_of
from tests.bench.onceover import capture_run, start_up
from tests.bench.workspace import Row, Workspace

QUERY = """
COPY (
    SELECT DISTINCT ON (partition, producer_id, producer_epoch, sequence) r.*
    FROM '{records}/*.parquet' AS r
    ANTI JOIN '{aborted}' AS a USING (partition, producer_id, producer_epoch)
) TO '{output}' (FORMAT parquet, COMPRESSION zstd)
"""


def measure(space: Workspace) -> Sequence[Row]:
    """The time of the query alone; decoding is given away, and our own session is up."""
    start_up(space)
    decoded_records(space)
    return [space.best_in_turn(partial(_row, space), partial(capture_run, space, space.volume.compared))]


def _row(space: Workspace) -> Row:
    decoded = decoded_records(space)
    with tempfile.TemporaryDirectory(dir=space.home) as folder, duckdb.connect() as connection:
        connection.execute(f"SET threads = {os.cpu_count()}")
        output = Path(folder, "records.parquet")
        began = time.perf_counter()
        connection.execute(
            QUERY.format(records=decoded, aborted=decoded / "aborted" / "aborted.parquet", output=output)
        )
        seconds = time.perf_counter() - began
        records = pq.read_metadata(output).num_rows
    return Row(
        title="DuckDB, decoded records",
        data=space.volume.compared.name.lower(),
        seconds=seconds,
        records=records,
    )


def decoded_records(space: Workspace) -> Path:
    """Every record of the run with its producer, and the aborted transactions; kept."""
    capture = space.capture(space.volume.compared)
    folder = capture.parent / "decoded"
    if not (folder / "aborted" / "aborted.parquet").exists():
        space.on_progress("decoding for those who cannot")
        (folder / "aborted").mkdir(parents=True, exist_ok=True)
        aborted = [
            _decode(path, folder / f"{number:04d}.parquet") for number, path in enumerate(objects_of(capture))
        ]
        pq.write_table(pa.concat_tables(aborted), folder / "aborted" / "aborted.parquet")
    return folder


def _decode(path: Path, output: Path) -> pa.Table:
    """Writes the records of one object; its aborted transactions."""
    aborted, writer = [], None
    for buffer, headers in read_windows(path):
        aborted.append(_aborted(partition_of(path), headers))
        for table in _tables(path, buffer, headers):
            writer = writer or pq.ParquetWriter(output, table.schema, compression="zstd")
            writer.write_table(table)
    if writer is not None:
        writer.close()
    return pa.concat_tables(aborted)


def _aborted(partition: int, headers: HeaderColumns) -> pa.Table:
    found = headers.pick(headers.control_type == ControlType.ABORT)
    return pa.table(
        {
            "partition": np.full(found.rows, partition, dtype=np.int32),
            "producer_id": found.producer_id,
            "producer_epoch": found.producer_epoch - np.int16(1),  # the marker has the next epoch
        }
    )


def _tables(path: Path, buffer: bytes, headers: HeaderColumns) -> Iterator[pa.Table]:
    chosen = headers.pick(headers.base_sequence >= 0)
    for piece in decode_batches(buffer, chosen, budget=PIECE_BYTES):
        records = piece.records
        batch = np.asarray(records.column("batch"))
        yield pa.table(
            {
                "partition": np.full(batch.size, partition_of(path), dtype=np.int32),
                "producer_id": chosen.producer_id[batch],
                "producer_epoch": chosen.producer_epoch[batch],
                **{
                    name: records.column(name)
                    for name in ("sequence", "timestamp", "key", "value", "headers")
                },
            }
        )
