"""Other engines get the same records: DuckDB, pandas and Polars through Arrow, Spark by its data source."""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from pyspark.sql.datasource import DataSourceReader, EqualTo, Filter, GreaterThanOrEqual, StringContains
from pyspark.sql.types import StructType

import onceover
from spark_jobs.execution.spark import Spark
from spark_jobs.reading import read_log
from spark_jobs.reading.query import open_log
from spark_jobs.reading.read_plan import PlannedRead, ReadOptions
from spark_jobs.reading.records import read_piece
from spark_jobs.reading.spark_source import Chosen, KafkaLog, PieceRange, RecordReader, grouped
from tests.reading.conftest import as_truth, read, sample_truth
from tests.reading.spark_reads import RECORDING, TRUTH, check_session


def test_duckdb_reads_a_reader_by_its_name() -> None:
    reader = onceover.read_log(RECORDING / "data", columns=["topic", "partition", "offset"])
    counted = duckdb.sql("SELECT topic, partition, count(*) FROM reader GROUP BY ALL")

    assert reader is not None
    assert counted is not None
    assert {(topic, partition): rows for topic, partition, rows in counted.fetchall()} == {
        key: len(records) for key, records in TRUTH.items()
    }


def _by_duckdb(reader: pa.RecordBatchReader) -> list[dict[str, Any]]:
    assert reader is not None
    found = duckdb.sql("FROM reader")
    assert found is not None
    rows: list[dict[str, Any]] = found.to_arrow_table().to_pylist()
    return rows


def _by_polars(reader: pa.RecordBatchReader) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pytest.importorskip("polars").DataFrame(reader).to_dicts()
    return rows


ENGINES: dict[str, Callable[[pa.RecordBatchReader], list[dict[str, Any]]]] = {
    "DuckDB": _by_duckdb,
    "pandas": lambda reader: reader.read_pandas().to_dict("records"),
    "Polars": _by_polars,
    "any stream": lambda reader: pa.RecordBatchReader.from_stream(reader).read_all().to_pylist(),
}


@pytest.mark.parametrize("engine", ENGINES)
def test_an_engine_gets_every_record_of_a_recording_and_of_the_sample(engine: str, sample: Path) -> None:
    assert as_truth(ENGINES[engine](onceover.read_log(RECORDING / "data"))) == TRUTH
    with pytest.warns(onceover.TornTail):
        rows = ENGINES[engine](onceover.read_log(sample))
    assert as_truth(rows) == sample_truth()


@pytest.mark.parametrize(
    ("condition", "pieces"),
    [
        ("true", 3),
        ("topic = 'orders'", 2),
        ("topic IN ('orders', 'none') AND partition = 1", 1),
        ("topic = 'payments' OR \"offset\" > 1000", 1),
        ("topic IS NULL", 0),
        ("\"offset\" BETWEEN 4 AND 5 AND topic LIKE 'ord%'", 2),
        ('"offset" > 100', 0),
        ("octet_length(value) = 7 AND partition <> 0", 1),
    ],
)
def test_sql_reads_the_pieces_that_can_match_and_gets_the_same_rows(
    sample: Path, monkeypatch: pytest.MonkeyPatch, condition: str, pieces: int
) -> None:
    read_pieces: list[PlannedRead] = []

    def read_one(piece: PlannedRead, wanted: ReadOptions) -> list[pa.RecordBatch]:
        read_pieces.append(piece)
        return read_piece(piece, wanted)

    monkeypatch.setattr(read_log, "read_piece", read_one)
    sql = f'SELECT topic, partition, "offset", value FROM records WHERE {condition} ORDER BY ALL'
    log, everything = open_log(sample), duckdb.connect()
    everything.register("records", read(sample))
    read_pieces.clear()
    with pytest.warns(onceover.TornTail):
        found = log.sql(sql).fetchall()

    assert found == everything.sql(sql).fetchall()
    assert len(read_pieces) == pieces


def test_spark_gets_the_records_of_a_consumer(spark: Spark, sample: Path) -> None:
    check_session(spark.session, sample)


def test_spark_says_why_a_log_cannot_be_read(spark: Spark, tmp_path: Path) -> None:
    onceover.register(spark.session)
    with pytest.raises(Exception, match=r"NotKafka: .*there is no such file or directory"):
        spark.session.read.format("kafka-log").load(str(tmp_path / "nothing")).collect()
    with pytest.raises(Exception, match=r"UnknownOption: option tabel: expected some of path, table"):
        spark.session.read.format("kafka-log").option("tabel", "batches").load(str(tmp_path)).schema  # noqa: B018


def test_filters_are_pushed_down_only_where_a_load_has_one_query(spark: Spark, sample: Path) -> None:
    onceover.register(spark.session)
    with pytest.raises(Exception, match=r"DATA_SOURCE_PUSHDOWN_DISABLED.*filterPushdown\.enabled"):
        spark.session.read.format("kafka-log").option("pushFilters", "true").load(str(sample)).collect()

    shared, alone = (
        KafkaLog({"path": str(sample), "pushFilters": flag}).reader(StructType())
        for flag in ("false", "true")
    )
    assert getattr(shared.pushFilters, "__func__", None) is DataSourceReader.pushFilters
    filters: list[Filter] = [
        EqualTo(("topic",), "orders"),
        GreaterThanOrEqual(("offset",), 1),
        StringContains(("value",), "x"),
    ]
    assert list(alone.pushFilters(filters)) == filters
    [planned] = alone.partitions()
    assert isinstance(planned, PieceRange)
    assert [(piece.topic, piece.partition) for piece in planned.pieces] == [("orders", 0)]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"offsets": "5"}, r"option offsets '5': expected first,end"),
        ({"offsets": "a,"}, r"option offsets 'a,': expected first,end"),
        ({"timestamps": "yesterday,"}, "option timestamps 'yesterday,': expected first,end"),
        ({"pushFilters": "yes"}, "option pushFilters 'yes': expected true or false"),
        ({"offsets": "1,", "table": "batches"}, "option offsets: expected with table records alone"),
    ],
)
def test_an_option_with_another_value_is_refused(sample: Path, options: dict[str, str], said: str) -> None:
    with pytest.raises(onceover.UnknownOption, match=said):
        chosen(sample, **options)


def test_every_plan_of_a_torn_log_warns(sample: Path) -> None:
    reader = RecordReader(chosen(sample, topics="payments"), StructType())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for _ in range(3):
            reader.partitions()
    assert [each.category for each in caught] == [onceover.TornTail] * 3


def chosen(path: Path, **options: str) -> Chosen:
    return Chosen.of({"path": str(path), **options})


def ranges(path: Path, **options: str) -> list[tuple[PlannedRead, ...]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", onceover.TornTail)
        reader = RecordReader(chosen(path, **options), StructType())
        return [partition.pieces for partition in reader.partitions()]  # type: ignore[attr-defined]


def test_partitions_have_about_equal_bytes(sample: Path) -> None:
    [whole] = ranges(sample)
    pieces = [piece for piece in whole for _ in range(40)]
    groups = list(grouped(pieces, sum(piece.size for piece in pieces) // 10))

    sizes = [sum(piece.size for piece in group) for group in groups]
    assert [piece for group in groups for piece in group] == pieces
    assert len(groups) in {10, 11}
    assert max(sizes) - min(sizes) <= 2 * max(piece.size for piece in pieces)


def test_a_read_without_records_has_a_partition_without_pieces(sample: Path) -> None:
    reader = RecordReader(chosen(sample, topics="orders", partitions="1"), StructType())
    reader._filters.offsets = reader._filters.offsets.narrowed(first=100)

    [partition] = reader.partitions()
    assert list(reader.read(partition)) == []


def test_all_partitions_together_have_the_records_of_read_log(sample: Path) -> None:
    batches = [
        batch for group in ranges(sample) for piece in group for batch in read_piece(piece, ReadOptions())
    ]
    assert pa.Table.from_batches(batches).equals(read(sample))
