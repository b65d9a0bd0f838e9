"""One commit of many files: how long a table takes to hold a run of up to 100,000 of them.

The files are real but small, links to one; catalog and metadata are those of a lake on this machine.
"""

import os
import shutil
import tempfile
import time
from collections.abc import Sequence
from datetime import date
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from spark_jobs.config.load import parse_settings
from spark_jobs.lake.iceberg.catalog import open_catalog
from spark_jobs.lake.iceberg.commits import publish_table
from spark_jobs.lake.iceberg.target import DataFile, RunStamp, TableTarget
from spark_jobs.tables.materialise import records_contract
from tests.bench.measure import own_cpu_seconds, own_peak_megabytes
from tests.bench.workspace import Row, Workspace

DAY = date(2024, 5, 1)
LINKS = 30_000
"""More of one file than a file system takes."""
CONFIG = "lake: lake\nsources: [{name: none, kind: capture, root: nothing}]"


def measure(space: Workspace) -> Sequence[Row]:
    """A commit of each size, in a fresh lake."""
    return [space.best(partial(_commit, space, files), 1) for files in space.volume.files]


def _commit(space: Workspace, files: int) -> Row:
    with tempfile.TemporaryDirectory(dir=space.home) as folder:
        settings = parse_settings(CONFIG, name="bench.yaml", base=Path(folder))
        target = _target(Path(folder, "lake", "files"), files)
        began, cpu = time.perf_counter(), own_cpu_seconds()
        with open_catalog(settings) as catalog:
            publish_table(catalog, target, _stamp("first"))
            seconds, cpu_seconds = time.perf_counter() - began, own_cpu_seconds() - cpu
            publish_table(catalog, target, _stamp("first"))
        again = time.perf_counter() - began - seconds
    return Row(
        title="Iceberg commit",
        data=f"{files}",
        seconds=seconds,
        cpu_seconds=cpu_seconds,
        numbers={"amount": files, "again s": again, "driver MB": own_peak_megabytes()},
    )


def _target(folder: Path, files: int) -> TableTarget:
    contract = records_contract("orders", "orders")
    paths = _link(folder, contract.schema, files)
    return TableTarget(
        namespace="topics",
        contract=contract,
        files=tuple(DataFile(location=str(path), rows=1) for path in paths),
    )


def _link(folder: Path, schema: pa.Schema, files: int) -> list[Path]:
    folder.mkdir(parents=True)
    row = {
        "partition": 0, "offset": 0, "timestamp": 0, "timestamp_type": "CreateTime",
        "timestamp_out_of_range": None,
        "key": b"k", "value": b"v", "headers": [], "producer_id": 1, "producer_epoch": 0, "sequence": 0,
        "transactional_id": None, "partition_leader_epoch": 0, "run_date": DAY,
    }  # fmt: skip
    paths = [folder / f"{number:06d}.parquet" for number in range(files)]
    pq.write_table(pa.Table.from_pylist([row], schema=schema), paths[0])
    for number, path in enumerate(paths[1:], start=1):
        first = paths[number // LINKS * LINKS]
        if path != first:
            os.link(first, path)
        else:
            shutil.copyfile(paths[0], path)
    return paths


def _stamp(run_id: str) -> RunStamp:
    return RunStamp(run_id=run_id, day=DAY, manifest="", config="", state_in="", state_out="")
