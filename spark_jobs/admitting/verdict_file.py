"""The table `batches` of one partition, written as its chunks are judged."""

from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_jobs.admitting.judging import INVALID_RECORD, NONE, Judged
from spark_jobs.admitting.reasons import errors_of_invalid, reasons
from spark_jobs.protocol.errors import KafkaError
from spark_jobs.protocol.topic_partition import TopicPartition
from spark_jobs.protocol.verdict import VERDICTS, Verdict
from spark_jobs.storage.index_rows import Labels, labels
from spark_jobs.storage.object_store import ObjectStore
from spark_jobs.storage.parquet_file import ParquetOutput
from spark_jobs.storage.run_folder import OutputFile
from spark_jobs.tables.admit import BATCHES, BATCHES_OPTIONS, BATCHES_WRITTEN
from spark_jobs.tables.index import INDEX

ROWS_PER_GROUP = 1 << 17
_VERDICTS = [verdict.value for verdict in VERDICTS]
_OTHER_ERRORS = (KafkaError.INVALID_RECORD, KafkaError.INVALID_TIMESTAMP, KafkaError.UNKNOWN_SERVER_ERROR)
"""What a broker may answer to an invalid batch."""
_KAFKA_ERRORS = [verdict.kafka_error.name for verdict in VERDICTS] + [each.name for each in _OTHER_ERRORS]

SourceOf = Callable[[Judged], Labels]
"""For every row the name of its source."""


class VerdictFile:
    """Collects judged chunks; a row group is about `ROWS_PER_GROUP` rows."""

    def __init__(self, lake: ObjectStore, partition: TopicPartition, source_of: SourceOf) -> None:
        self._partition, self._source_of = partition, source_of
        self._output = ParquetOutput(lake, BATCHES_WRITTEN, BATCHES_OPTIONS)
        self._waiting: list[pa.Table] = []
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
        self._waiting.append(self._table(judged))
        if sum(table.num_rows for table in self._waiting) >= ROWS_PER_GROUP:
            self._flush()

    def finish(self, folder: str) -> OutputFile:
        self._flush()
        return self._output.finish(folder, self.name)

    def _flush(self) -> None:
        if self._waiting:
            self._output.write(pa.concat_tables(self._waiting))
            self._waiting = []

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
    """For every row the place of its error's name: the verdict tells it, unless the batch is invalid."""
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
