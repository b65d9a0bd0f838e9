"""A plain Python data source of Spark's: a capture's objects as rows, one tuple per record.

Written the way one would without Onceover: a client library parses the batches, Spark does the rest.
"""

from collections.abc import Iterator
from pathlib import Path

from aiokafka.record import MemoryRecords
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

SCHEMA = (
    "partition int, producer_id long, producer_epoch int, sequence int, is_abort boolean, "
    "timestamp long, key binary, value binary"
)
ABORT = b"\x00\x00\x00\x00"
"""The key of a control record: version 0, type 0."""

LogRow = tuple[int, int, int, int, bool, int, bytes | None, bytes | None]


class LogFile(InputPartition):
    """One object."""

    def __init__(self, path: str) -> None:
        self.path = path


class LogSource(DataSource):
    """`spark.read.format("kafka_log").option("root", …)`."""

    @classmethod
    def name(cls) -> str:
        return "kafka_log"

    def schema(self) -> str:
        return SCHEMA

    def reader(self, schema: object) -> "LogReader":
        return LogReader(self.options["root"])


class LogReader(DataSourceReader):
    """An input partition per object."""

    def __init__(self, root: str) -> None:
        self.root = root

    def partitions(self) -> list[InputPartition]:
        files = sorted(path for path in Path(self.root).glob("dt=*/*/*") if path.is_file())
        return [LogFile(str(path)) for path in files]

    def read(self, partition: InputPartition) -> Iterator[LogRow]:
        assert isinstance(partition, LogFile)
        yield from rows_of(Path(partition.path))


def rows_of(path: Path) -> Iterator[LogRow]:
    """Data and control records."""
    number = int(path.parent.name.rpartition("-")[2])
    batches = MemoryRecords(path.read_bytes())
    while (batch := batches.next_batch()) is not None:
        pid, epoch, is_control = batch.producer_id, batch.producer_epoch, batch.is_control_batch
        for sequence, record in enumerate(batch, start=batch.base_sequence):
            aborts = is_control and record.key == ABORT
            yield (
                number,
                pid,
                epoch,
                -1 if is_control else sequence,
                aborts,
                record.timestamp,
                record.key,
                record.value,
            )
