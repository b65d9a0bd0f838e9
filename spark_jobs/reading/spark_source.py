"""The Spark data source `kafka-log`: `spark.read.format("kafka-log").load(path)`.

The driver reads headers and plans; a task reads a range of batches of about equal bytes and passes Arrow
record batches to the JVM. A task gets the ranges alone: which file, from which byte to which, and one bit per
batch where not all of them are read.

Options choose what is planned. Filters of queries do so with the option `pushFilters` alone: Spark keeps one
plan per load, that of the filters that were pushed last (SPARK-51575), and gives it to every other scan of
the same DataFrame or view.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeAlias

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    LessThan,
    LessThanOrEqual,
)
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from spark_jobs.kernels.imports import imports_frozen
from spark_jobs.reading.contracts import HEADER_TABLES, LOG_RECORDS
from spark_jobs.reading.errors import UnknownOption
from spark_jobs.reading.in_order import THREADS
from spark_jobs.reading.isolation import Isolation
from spark_jobs.reading.partition_scan import is_plain, scan_partition
from spark_jobs.reading.read_log import plan_pieces
from spark_jobs.reading.read_plan import PlannedRead, ReadOptions, Span, columns_of, isolation_of, span_of
from spark_jobs.reading.records import read_piece
from spark_jobs.reading.scan_log import TABLE_OF
from spark_jobs.reading.stored_log import PartitionFiles, choose, find_partitions
from spark_jobs.tables.contract import Contract

NAME = "kafka-log"
MOST_PARTITION_BYTES, LEAST_PARTITION_BYTES = 64 * 2**20, 4 * 2**20
_FEWEST_PARTITIONS = 16
OPTIONS = (
    "path",
    "table",
    "isolation",
    "columns",
    "topics",
    "partitions",
    "offsets",
    "timestamps",
    "pushfilters",
    "partitionbytes",
    "encryptionkeys",
)
_LISTS = ("columns", "topics", "partitions", "encryptionkeys")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
Bounds: TypeAlias = tuple[int | None, int | None]


def register(spark: SparkSession) -> None:
    """Adds `kafka-log` to the session."""
    spark.dataSource.register(KafkaLog)


class KafkaLog(DataSource):
    """A segment, partition or log directory as a DataFrame.

    Options: `table` (records, batches, transactions, aborted, producers or remarks), `isolation`
    (read_committed or read_uncommitted), `columns`, `topics` and `partitions` (comma-separated lists),
    `offsets` and `timestamps` (`first,end`, the end excluded, empty for no bound), `pushFilters` (`true` lets
    the one query of this load choose what is read), `partitionBytes` (bytes of the log per Spark partition),
    and `encryptionKeys` of tiered storage (`key-1=file:PATH,key-2=env:VARIABLE`).
    """

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        """The columns of the chosen table."""
        return from_arrow_schema(self._chosen().schema)

    def reader(self, schema: StructType) -> DataSourceReader:
        """The reader of the chosen table."""
        chosen = self._chosen()
        if chosen.table != LOG_RECORDS.name:
            kind = PushedHeaderReader if chosen.push_filters else HeaderReader
            return kind(chosen, schema)
        return (PushedRecordReader if chosen.push_filters else RecordReader)(chosen, schema)

    def _chosen(self) -> "Chosen":
        return Chosen.of(dict(self.options))


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """The options of a read."""

    path: str
    table: str
    isolation: Isolation
    columns: tuple[str, ...]
    topics: tuple[str, ...] | None
    partitions: tuple[int, ...] | None
    offsets: Span
    timestamps: Span
    push_filters: bool
    partition_bytes: int | None
    encryption_keys: dict[str, str]

    @classmethod
    def of(cls, options: dict[str, str]) -> "Chosen":
        """From the options of a reader; one that does not exist is an error."""
        given = _checked({name.lower(): value for name, value in options.items()})
        table, lists = (
            given.get("table", LOG_RECORDS.name),
            {name: _names(given.get(name)) for name in _LISTS},
        )
        columns = columns_of(lists["columns"], _contract(table).schema.names)
        sizes = _numbers("partitionBytes", _names(given.get("partitionbytes")))
        return cls(
            path=given["path"],
            table=table,
            isolation=isolation_of(given.get("isolation", "read_committed")),
            columns=columns,
            topics=lists["topics"],
            partitions=_numbers("partitions", lists["partitions"]),
            offsets=span_of(_pair("offsets", given.get("offsets"), int), "offsets"),
            timestamps=span_of(_pair("timestamps", given.get("timestamps"), _time), "timestamps"),
            push_filters=_flag("pushFilters", given.get("pushfilters", "false")),
            partition_bytes=max(sizes[0], 1) if sizes else None,
            encryption_keys=_keys(lists["encryptionkeys"] or ()),
        )

    @property
    def schema(self) -> pa.Schema:
        contract = _contract(self.table)
        return pa.schema([contract.schema.field(name) for name in self.columns])


def _checked(given: dict[str, str]) -> dict[str, str]:
    unknown = sorted(given.keys() - set(OPTIONS))
    if unknown:
        raise UnknownOption(f"option {', '.join(unknown)}: expected some of {', '.join(OPTIONS)}")
    if not given.get("path"):
        raise UnknownOption("option path: expected a segment, a partition's directory or a log directory")
    ranges = sorted(given.keys() & {"offsets", "timestamps"})
    if ranges and given.get("table", LOG_RECORDS.name) != LOG_RECORDS.name:
        raise UnknownOption(f"option {', '.join(ranges)}: expected with table {LOG_RECORDS.name} alone")
    return given


def _contract(table: str) -> Contract:
    contracts = {LOG_RECORDS.name: LOG_RECORDS, **HEADER_TABLES}
    if table not in contracts:
        raise UnknownOption(f"option table {table!r}: expected one of {', '.join(contracts)}")
    return contracts[table]


def _names(text: str | None) -> tuple[str, ...] | None:
    return None if text is None else tuple(name.strip() for name in text.split(",") if name.strip())


def _keys(texts: Iterable[str]) -> dict[str, str]:
    """`key-1=file:PATH` → the reference by the key's id; `find_partitions` checks references."""
    pairs = [text.partition("=") for text in texts]
    if not all(separator for _, separator, _ in pairs):
        raise UnknownOption("option encryptionKeys: expected ID=file:PATH or ID=env:VARIABLE")
    return {key_id: reference for key_id, _, reference in pairs}


def _numbers(option: str, texts: Iterable[str] | None) -> tuple[int, ...] | None:
    try:
        return None if texts is None else tuple(map(int, texts))
    except ValueError:
        raise UnknownOption(f"option {option} {', '.join(texts or ())!r}: expected whole numbers") from None


def _pair(option: str, text: str | None, bound: Callable[[str], Any]) -> tuple[Any, Any] | None:
    """`first,end` with an empty bound for none."""
    if text is None:
        return None
    try:
        first, end = (bound(part.strip()) if part.strip() else None for part in text.split(","))
    except ValueError:
        raise UnknownOption(
            f"option {option} {text!r}: expected first,end with the end excluded, empty for no bound"
        ) from None
    return first, end


def _time(text: str) -> datetime | int:
    """Milliseconds since 1970, or a time in ISO 8601, UTC if it has no time zone."""
    return int(text) if text.lstrip("-").isdigit() else datetime.fromisoformat(text)


def _flag(option: str, text: str) -> bool:
    if text.lower() not in {"true", "false"}:
        raise UnknownOption(f"option {option} {text!r}: expected true or false")
    return text.lower() == "true"


class PieceRange(InputPartition):
    """Neighbouring pieces, read by one task."""

    def __init__(self, pieces: Sequence[PlannedRead]) -> None:
        super().__init__(None)
        self.pieces = tuple(pieces)


class LogPartition(InputPartition):
    """One partition of the log, scanned by one task."""

    def __init__(self, files: PartitionFiles) -> None:
        super().__init__(None)
        self.files = files


class _LogReader(DataSourceReader):
    def __init__(self, chosen: Chosen, schema: StructType) -> None:
        self._chosen, self._schema = chosen, schema
        self._filters = LogFilters()

    def _files(self) -> tuple[PartitionFiles, ...]:
        found = find_partitions(self._chosen.path, self._chosen.encryption_keys)
        chosen = choose(found, self._chosen.topics, self._chosen.partitions)
        return tuple(files for files in chosen if self._filters.keeps(files))

    def _expected(self) -> pa.Schema:
        return to_arrow_schema(self._schema, timezone="UTC")


def _as_spark(batch: pa.RecordBatch, expected: pa.Schema) -> pa.RecordBatch:
    """The batch in the types that Spark expects, which differ in nullability alone."""
    columns = [batch.column(field.name).cast(field.type) for field in expected]
    return pa.RecordBatch.from_arrays(columns, schema=expected)


class RecordReader(_LogReader):
    """Reads records: pieces are planned in the driver, and grouped to ranges of about equal bytes."""

    def partitions(self) -> Sequence[InputPartition]:
        """The ranges; a log without wanted records has none."""
        pieces = list(plan_pieces(self._files(), self._wanted(), ahead=THREADS))
        return [PieceRange(group) for group in grouped(pieces, self._chosen.partition_bytes)] or [
            PieceRange(())
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The records of a range; runs in a task."""
        assert isinstance(partition, PieceRange)
        wanted, expected = self._wanted(), self._expected()
        with imports_frozen():
            for piece in partition.pieces:
                for batch in read_piece(piece, wanted):
                    yield _as_spark(batch, expected)

    def _wanted(self) -> ReadOptions:
        pushed = self._filters
        return ReadOptions(
            isolation=self._chosen.isolation,
            columns=self._chosen.columns,
            offsets=self._chosen.offsets.narrowed(first=pushed.offsets.first, end=pushed.offsets.end),
            timestamps=self._chosen.timestamps.narrowed(
                first=pushed.timestamps.first, end=pushed.timestamps.end
            ),
        )


class HeaderReader(_LogReader):
    """Reads a table that needs headers alone: every partition of the log is scanned by one task."""

    def partitions(self) -> Sequence[InputPartition]:
        """The partitions of the log."""
        return [LogPartition(files) for files in self._files()] or [PieceRange(())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a partition; runs in a task."""
        if isinstance(partition, LogPartition):
            with imports_frozen():
                plainly = is_plain([partition.files], records=False)
                table = TABLE_OF[self._chosen.table](scan_partition(partition.files, plainly=plainly))
                expected = self._expected()
                for batch in table.select(list(self._chosen.columns)).to_batches():
                    yield _as_spark(batch, expected)


class PushedRecordReader(RecordReader):
    """A reader of records that also plans by the filters of its query."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 — Spark's name
        """Plans by the filters that headers can answer; Spark applies all of them to the rows."""
        return self._filters.taken(filters, ("topic", "partition", "offset", "timestamp"))


class PushedHeaderReader(HeaderReader):
    """A reader of headers that also plans by the filters of its query."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 — Spark's name
        """Plans by the filters on topic and partition; Spark applies all of them to the rows."""
        return self._filters.taken(filters, ("topic", "partition"))


def grouped(pieces: Sequence[PlannedRead], most_bytes: int | None) -> Iterator[list[PlannedRead]]:
    """Neighbouring pieces of about equal bytes together."""
    total = sum(piece.size for piece in pieces)
    fair = max(LEAST_PARTITION_BYTES, min(MOST_PARTITION_BYTES, total // _FEWEST_PARTITIONS))
    size = most_bytes or fair
    groups = max(1, -(-total // size))
    group: list[PlannedRead] = []
    number, before = 0, 0
    for piece in pieces:
        # The middle of a piece decides, so that groups differ by less than a piece.
        here = min((before + piece.size // 2) * groups // max(total, 1), groups - 1)
        if group and here != number:
            yield group
            group = []
        group.append(piece)
        number, before = here, before + piece.size
    if group:
        yield group


class LogFilters:
    """The filters that were pushed down: all of them hold for every record that is read."""

    def __init__(self) -> None:
        self.offsets, self.timestamps, self.numbers = Span(), Span(), Span()
        self.topics: frozenset[str] | None = None
        self.chosen_numbers: frozenset[int] | None = None

    def keeps(self, files: PartitionFiles) -> bool:
        """Whether a partition can have records; one without a name has none for a filter on it."""
        if self.topics is not None and files.topic not in self.topics:
            return False
        if self.chosen_numbers is None and self.numbers.is_open:
            return True
        number = files.partition
        if number is None or (self.chosen_numbers is not None and number not in self.chosen_numbers):
            return False
        return (self.numbers.first is None or number >= self.numbers.first) and (
            self.numbers.end is None or number < self.numbers.end
        )

    def taken(self, filters: list[Filter], pushable: tuple[str, ...]) -> list[Filter]:
        """Takes what it can of the filters, and gives all of them back, for Spark to apply to the rows."""
        for each in filters:
            self.take(each, pushable)
        return filters

    def take(self, each: Filter, pushable: tuple[str, ...]) -> bool:
        """Whether the filter narrows what is planned."""
        column = ".".join(getattr(each, "attribute", ()))
        if column not in pushable:
            return False
        if column == "topic" or (column == "partition" and isinstance(each, In)):
            return self._take_set(column, each)
        bounds = _bounds(each, _microseconds if column == "timestamp" else _integer)
        if bounds is None:
            return False
        self._narrow(column, bounds)
        return True

    def _take_set(self, column: str, each: Filter) -> bool:
        if not isinstance(each, EqualTo | In):
            return False
        values = frozenset(each.value if isinstance(each, In) else (each.value,))
        if column == "topic":
            self.topics = values if self.topics is None else self.topics & values
        else:
            self.chosen_numbers = values if self.chosen_numbers is None else self.chosen_numbers & values
        return True

    def _narrow(self, column: str, bounds: Bounds) -> None:
        first, end = bounds
        if column == "offset":
            self.offsets = self.offsets.narrowed(first=first, end=end)
        elif column == "partition":
            self.numbers = self.numbers.narrowed(first=first, end=end)
        else:
            whole = tuple(None if bound is None else -(-bound // 1000) for bound in bounds)
            self.timestamps = self.timestamps.narrowed(first=whole[0], end=whole[1])


def _bounds(each: Filter, number: Callable[[Any], int | None]) -> Bounds | None:
    """The range of a comparison, the end excluded; None if it is none."""
    value = number(getattr(each, "value", None))
    if value is None:
        return None
    if isinstance(each, EqualTo):
        return value, value + 1
    if isinstance(each, GreaterThan | GreaterThanOrEqual):
        return value + isinstance(each, GreaterThan), None
    if isinstance(each, LessThan | LessThanOrEqual):
        return None, value + isinstance(each, LessThanOrEqual)
    return None


def _integer(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _microseconds(value: Any) -> int | None:
    if not isinstance(value, datetime):
        return None
    since = (value if value.tzinfo is not None else value.astimezone()) - _EPOCH
    return since.days * 86_400_000_000 + since.seconds * 1_000_000 + since.microseconds
