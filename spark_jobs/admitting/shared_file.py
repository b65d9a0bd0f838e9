"""Small tables that all partitions of a task share: a file only if there is a row."""

from types import TracebackType
from typing import Any, Self

import numpy as np
import pyarrow as pa

from spark_jobs.kernels.producers import Rows
from spark_jobs.kernels.transactions import NO_MARKER
from spark_jobs.protocol.producer_state import NO_OFFSET
from spark_jobs.protocol.topic_partition import TopicPartition
from spark_jobs.storage.object_store import ObjectStore
from spark_jobs.storage.parquet_file import ParquetOutput
from spark_jobs.storage.run_folder import OutputFile
from spark_jobs.tables.admit import PARTITION_TRANSACTIONS
from spark_jobs.tables.contract import Contract

MARKER_COLUMNS = ("marker_type", "marker_offset", "marker_epoch", "coordinator_epoch", "marker_timestamp")

ROWS_PER_GROUP = 1 << 16
"""Rows that wait for the next partition's: a group of their own would cost more than they do."""

GAP_COLUMNS = ("gap_first_offset", "gap_last_offset")


class SharedFile:
    """Rows of one contract from several partitions, one after the other."""

    def __init__(self, lake: ObjectStore, contract: Contract, name: str) -> None:
        self._output = ParquetOutput(lake, contract.schema)
        self._contract, self._name, self.rows = contract, name, 0
        self._waiting: list[pa.Table] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._output.__exit__(kind, error, trace)

    def add(self, table: pa.Table) -> None:
        """Rows of one partition, written together with those of others."""
        if not table.num_rows:
            return
        self._waiting.append(table)
        self.rows += table.num_rows
        if sum(each.num_rows for each in self._waiting) >= ROWS_PER_GROUP:
            self._flush()

    def finish(self, folder: str) -> tuple[OutputFile, ...]:
        """The file, if it has rows."""
        if not self.rows:
            return ()
        self._flush()
        return (self._output.finish(folder, self._name),)

    def _flush(self) -> None:
        if self._waiting:
            self._output.write(self._contract.cast(pa.concat_tables(self._waiting)))
            self._waiting = []

    @property
    def name(self) -> str:
        """Path of the file below the step's folder; empty without rows."""
        return self._name if self.rows else ""


def transactions_table(partition: TopicPartition, rows: Rows) -> pa.Table:
    """Rows of dtype `TRANSACTION` as the table `partition_transactions`."""
    is_open = rows["marker_type"] == NO_MARKER
    columns: dict[str, Any] = {name: np.ascontiguousarray(rows[name]) for name in rows.dtype.names or ()}
    columns |= {name: pa.array(columns[name], mask=is_open) for name in MARKER_COLUMNS}
    has_no_gap = rows["gap_first_offset"] == NO_OFFSET
    columns |= {name: pa.array(columns[name], mask=has_no_gap) for name in GAP_COLUMNS}
    columns["began_before"] = rows["began_before"] == 1
    return _of_partition(partition, columns, len(rows)).select(PARTITION_TRANSACTIONS.schema.names)


def _of_partition(partition: TopicPartition, columns: dict[str, Any], rows: int) -> pa.Table:
    of_all = {
        "topic": pa.array([partition.topic] * rows, pa.string()),
        "partition": np.full(rows, partition.partition, dtype=np.int32),
    }
    return pa.table({**of_all, **columns})
