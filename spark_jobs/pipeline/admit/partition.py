"""The tables of an admitted partition, for every kind of source: verdicts, reasons, transactions."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from string import Formatter
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.kafka.errors import KafkaError
from spark_jobs.kafka.formats.record_batch import LOG_OVERHEAD, RecordBatchHeader
from spark_jobs.kafka.producers.admission import why_invalid
from spark_jobs.kafka.producers.producer_state import NO_OFFSET
from spark_jobs.kafka.producers.verdict import VERDICTS, Verdict
from spark_jobs.kafka.topic_partition import TopicPartition
from spark_jobs.kernels.partition_transactions import NO_MARKER
from spark_jobs.kernels.producers import Rows
from spark_jobs.lake.index_rows import Labels, labels, values
from spark_jobs.lake.object_store import ObjectStore
from spark_jobs.lake.parquet_file import ParquetOutput
from spark_jobs.lake.run_folder import OutputFile
from spark_jobs.lake.states import PartitionState, put_state
from spark_jobs.pipeline.admit.job import AdmitTask, AdmittedPartition, PartitionJob
from spark_jobs.pipeline.partition_memory import INVALID_RECORD, NONE, Judged, PartitionMemory
from spark_jobs.tables.admit import (
    BATCHES,
    BATCHES_OPTIONS,
    BATCHES_WRITTEN,
    MARKER_OBJECT,
    PARTITION_TRANSACTIONS,
)
from spark_jobs.tables.contract import Contract
from spark_jobs.tables.index import INDEX

# The column `reason` of the table `batches`.

OUTSIDE_TRANSACTION = (
    "critical: a non-transactional batch inside its producer's open transaction; no broker could load this "
    "log again"
)

_HEADER = [field.name for field in fields(RecordBatchHeader) if field.name != "batch_length"]

Places = npt.NDArray[np.int64]
ColumnValues = npt.NDArray[np.generic] | pa.StringArray


def reasons(judged: Judged) -> pa.StringArray:
    """A reason for every row that was not simply accepted, null for the others."""
    verdict = judged.decisions.verdict
    parts = _parts(judged, verdict)
    if not parts:
        return pa.nulls(len(verdict), pa.string())
    index = np.zeros(len(verdict), dtype=np.int32)
    texts: list[pa.StringArray] = [pa.nulls(1, pa.string())]
    for places, text in parts:
        index[places] = np.arange(len(places)) + sum(map(len, texts))
        texts.append(text)
    sentences: pa.StringArray = pa.concat_arrays(texts).take(pa.array(index, pa.int32()))
    return sentences


def _parts(judged: Judged, verdict: npt.NDArray[np.int8]) -> list[tuple[Places, pa.StringArray]]:
    found = [
        (np.flatnonzero(verdict == code), each.reason) for code, each in enumerate(VERDICTS) if each.reason
    ]
    parts = [(places, _filled(judged, places, reason)) for places, reason in found if len(places)]
    outside_transaction = np.flatnonzero(judged.outside_transaction)
    return (
        [
            *parts,
            (outside_transaction, pa.array([OUTSIDE_TRANSACTION] * len(outside_transaction), pa.string())),
        ]
        if len(outside_transaction)
        else parts
    )


def _filled(judged: Judged, places: Places, reason: str) -> pa.StringArray:
    """The reason of a verdict with the values of the batches at `places`."""
    pieces: list[Any] = []
    for words, name, _, _ in Formatter().parse(reason):
        pieces.append(words)
        if name is not None:
            column: Any = VALUES[name](judged, places)
            pieces.append(pa.array(column).cast(pa.string()))
    joined: pa.StringArray = pc.binary_join_element_wise(*pieces, "")
    return joined


def _of_header(name: str) -> Callable[[Judged, Places], ColumnValues]:
    return lambda judged, places: values(judged.rows, name)[places]


def _of_decision(name: str) -> Callable[[Judged, Places], ColumnValues]:
    return lambda judged, places: np.asarray(getattr(judged.decisions, name)[places])


def _of_gap(end: int) -> Callable[[Judged, Places], ColumnValues]:
    return lambda judged, places: np.full(len(places), (judged.gap or (0, 0))[end], dtype=np.int64)


def _problem(judged: Judged, places: Places) -> ColumnValues:
    problems: Any = judged.rows.column("problem")
    sentences: pa.StringArray = problems.take(pa.array(places, pa.int64()))
    return sentences


def _broken_rule(judged: Judged, places: Places) -> ColumnValues:
    return pa.array([sentence for _, sentence in _broken_rules(judged, places)], pa.string())


VALUES: dict[str, Callable[[Judged, Places], ColumnValues]] = {
    **{name: _of_header(name) for name in (*_HEADER, "coordinator_epoch")},
    "offset": _of_decision("base_offset"),
    "expected_sequence": _of_decision("expected_sequence"),
    "expected_epoch": _of_decision("expected_epoch"),
    "gap_first_offset": _of_gap(0),
    "gap_last_offset": _of_gap(1),
    "problem": _problem,
    "broken_rule": _broken_rule,
}
"""What the reason of a verdict can name."""


def errors_of_invalid(judged: Judged, places: Places) -> list[KafkaError]:
    """The errors that a broker returns for the batches at `places`, which are all invalid."""
    return [error for error, _ in _broken_rules(judged, places)]


def _broken_rules(judged: Judged, places: Places) -> Iterator[tuple[KafkaError, str]]:
    columns = [values(judged.rows, name)[places].tolist() for name in (*_HEADER, "size")]
    without_key = values(judged.rows, "records_without_key")[places].tolist()
    for (*row, size), count in zip(zip(*columns, strict=True), without_key, strict=True):
        named = dict(zip(_HEADER, row, strict=True))
        header = RecordBatchHeader(batch_length=size - LOG_OVERHEAD, **named)
        yield why_invalid(header, records_without_key=count)


# The table `batches` of one partition, written as its chunks are judged.

ROWS_PER_GROUP = 1 << 17
_VERDICTS = [verdict.value for verdict in VERDICTS]
_OTHER_ERRORS = (KafkaError.INVALID_RECORD, KafkaError.INVALID_TIMESTAMP, KafkaError.UNKNOWN_SERVER_ERROR)
"""Errors that a broker may return for an invalid batch."""
_KAFKA_ERRORS = [verdict.kafka_error.name for verdict in VERDICTS] + [each.name for each in _OTHER_ERRORS]

SourceOf = Callable[[Judged], Labels]
"""For every row the name of its source."""


class VerdictFile:
    """Collects judged chunks; a row group is about `ROWS_PER_GROUP` rows."""

    def __init__(self, lake: ObjectStore, partition: TopicPartition, source_of: SourceOf) -> None:
        self._partition, self._source_of = partition, source_of
        self._output = ParquetOutput(lake, BATCHES_WRITTEN, BATCHES_OPTIONS)
        self._buffered: list[pa.Table] = []
        self.counts = np.zeros(len(VERDICTS), dtype=np.int64)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._output.__exit__(kind, error, trace)

    @property
    def name(self) -> str:
        return BATCHES.file_of(partition=self._partition)

    @property
    def rows(self) -> int:
        return int(self.counts.sum())

    @property
    def verdicts(self) -> dict[Verdict, int]:
        """How often each verdict was given, none that was not."""
        return {VERDICTS[code]: int(count) for code, count in enumerate(self.counts) if count}

    def add(self, judged: Judged) -> None:
        """The rows of a chunk, in its order."""
        if not judged.rows.num_rows:
            return
        self.counts += np.bincount(judged.decisions.verdict, minlength=len(VERDICTS))
        self._buffered.append(self._table(judged))
        if sum(table.num_rows for table in self._buffered) >= ROWS_PER_GROUP:
            self._flush()

    def finish(self, folder: str) -> OutputFile:
        self._flush()
        return self._output.finish(folder, self.name)

    def _flush(self) -> None:
        if self._buffered:
            self._output.write(pa.concat_tables(self._buffered))
            self._buffered = []

    def _table(self, judged: Judged) -> pa.Table:
        found, rows = judged.decisions, judged.rows
        columns = {
            "topic": labels(np.zeros(rows.num_rows, dtype=np.int8), [self._partition.topic]),
            "partition": pa.array(np.full(rows.num_rows, self._partition.partition, dtype=np.int32)),
            "source": self._source_of(judged),
            "copy": pa.array(judged.copy),
            **{name: rows.column(name) for name in INDEX.schema.names},
            "verdict": labels(found.verdict, _VERDICTS),
            "kafka_error": labels(_error_codes(judged), _KAFKA_ERRORS),
            "offset": _or_null(found.base_offset),
            "expected_sequence": _or_null(found.expected_sequence),
            "expected_epoch": _or_null(found.expected_epoch),
            "txn_first_offset": _or_null(found.txn_first_offset),
            "reason": reasons(judged),
        }
        return pa.table(columns).select(BATCHES_WRITTEN.names).cast(BATCHES_WRITTEN)


def _error_codes(judged: Judged) -> npt.NDArray[np.int8]:
    """For every row the place of its error's name: that of its verdict, unless the batch is invalid."""
    verdict = judged.decisions.verdict
    places = np.flatnonzero(verdict == INVALID_RECORD)
    if not len(places):
        return verdict
    codes = verdict.copy()
    codes[places] = [
        len(VERDICTS) + _OTHER_ERRORS.index(error) for error in errors_of_invalid(judged, places)
    ]
    return codes


def _or_null(numbers: npt.NDArray[np.signedinteger[Any]]) -> Any:
    """An Arrow array of them, null where there is none."""
    is_none = numbers == NONE
    return pa.array(numbers, mask=is_none) if is_none.any() else pa.array(numbers)


# Small tables that all partitions of a task share; without rows there is no file.

MARKER_COLUMNS = ("marker_type", "marker_offset", "marker_epoch", "coordinator_epoch", "marker_timestamp")

SHARED_ROWS_PER_GROUP = 1 << 16
"""Rows of several partitions share a row group: a small group costs more than its rows."""

GAP_COLUMNS = ("gap_first_offset", "gap_last_offset")


class SharedFile:
    """Rows of one contract from several partitions, one after the other."""

    def __init__(self, lake: ObjectStore, contract: Contract, name: str) -> None:
        self._output = ParquetOutput(lake, contract.schema)
        self._contract, self._name, self.rows = contract, name, 0
        self._buffered: list[pa.Table] = []

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
        self._buffered.append(table)
        self.rows += table.num_rows
        if sum(each.num_rows for each in self._buffered) >= SHARED_ROWS_PER_GROUP:
            self._flush()

    def finish(self, folder: str) -> tuple[OutputFile, ...]:
        """The file, if it has rows."""
        if not self.rows:
            return ()
        self._flush()
        return (self._output.finish(folder, self._name),)

    def _flush(self) -> None:
        if self._buffered:
            self._output.write(self._contract.cast(pa.concat_tables(self._buffered)))
            self._buffered = []

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


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFiles:
    """The task, and the tables that its partitions share."""

    task: AdmitTask
    transactions: SharedFile


class PartitionRun:
    """Collects the result of one partition, chunk by chunk."""

    def __init__(self, job: PartitionJob, files: TaskFiles, batches: VerdictFile) -> None:
        self._job, self._files, self._batches = job, files, batches
        self._transactions = 0
        self.gaps = self.critical = self.markers = self.inherited = self.staged_end_offset = 0

    @property
    def rows(self) -> int:
        """Verdicts so far."""
        return self._batches.rows

    def keep(self, judged: Judged, closed: Rows) -> None:
        """A chunk's verdicts, and the transactions that it closed."""
        self.markers += int(np.count_nonzero(values(judged.rows, "object_order") == MARKER_OBJECT))
        self._batches.add(judged)
        self.critical += int(np.count_nonzero(judged.outside_transaction))
        self._keep_transactions(closed)

    def finish(
        self,
        before: PartitionState,
        after: PartitionState,
        memory: PartitionMemory,
        outputs: tuple[OutputFile, ...],
    ) -> AdmittedPartition:
        """Writes what is left; the state file is named by its content, so it can be written twice.

        The task flushes the states of all its partitions to disk at once.
        """
        self._keep_transactions(memory.transactions.open_transactions())
        opened = after.open_transactions["first_offset"]
        task = self._files.task
        return AdmittedPartition(
            partition=self._job.partition,
            origin=self._job.origin,
            verdicts=self._batches.verdicts,
            inherited=self.inherited,
            markers=self.markers,
            start_offset=before.end_offset,
            end_offset=after.end_offset,
            log_start_offset=after.log_start_offset,
            first_unstable_offset=int(opened[0]) if len(opened) else None,
            leader_epoch=after.leader_epoch,
            producers=len(after.producers),
            gaps=self.gaps,
            cleaned_offset=self._job.cleaned_offset,
            critical=self.critical,
            staged_end_offset=self.staged_end_offset,
            transactions=self._transactions,
            state=put_state(task.lake, after, durable=False),
            batches=self._batches.name,
            outputs=(*outputs, self._batches.finish(task.folder)),
        )

    def _keep_transactions(self, rows: Rows) -> None:
        if not len(rows):
            return
        self._files.transactions.add(transactions_table(self._job.partition, rows))
        self._transactions += len(rows)
