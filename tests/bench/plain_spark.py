"""Plain PySpark: a Python data source into rows, `dropDuplicates`, an anti-join of aborts, Parquet."""

import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType

import pyarrow.parquet as pq
from pyspark import cloudpickle
from pyspark.sql import functions

from tests.bench import log_source
from tests.bench.workspace import Row, Workspace

TRANSACTION = ["partition", "producer_id", "producer_epoch"]


def measure(space: Workspace) -> Sequence[Row]:
    """In the same session as everything else."""
    return [space.best(lambda: _row(space), space.volume.slow_times)]


def _row(space: Workspace) -> Row:
    capture = space.capture(space.volume.compared)
    with tempfile.TemporaryDirectory(dir=space.home) as folder:
        output = Path(folder, "records")
        began = time.perf_counter()
        _write(space, capture, output)
        seconds = time.perf_counter() - began
        records = sum(pq.read_metadata(path).num_rows for path in output.glob("*.parquet"))
    return Row(
        title="plain PySpark", data=space.volume.compared.name.lower(), seconds=seconds, records=records
    )


def _write(space: Workspace, capture: Path, output: Path) -> None:
    ship: Callable[[ModuleType], None] = vars(cloudpickle)["register_pickle_by_value"]
    ship(log_source)  # workers do not know the tests
    session = space.spark.session
    session.dataSource.register(log_source.LogSource)
    rows = session.read.format("kafka_log").option("root", str(capture)).load()
    aborted = rows.where("is_abort").selectExpr(
        "partition", "producer_id", "producer_epoch - 1 as producer_epoch"
    )
    committed = (
        rows.where("sequence >= 0")
        .dropDuplicates([*TRANSACTION, "sequence"])
        .join(functions.broadcast(aborted), TRANSACTION, "left_anti")
    )
    committed.write.option("compression", "zstd").parquet(str(output))
