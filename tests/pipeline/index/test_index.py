"""`index` through Spark: its rows equal those of a reader of whole objects, for any content."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from spark_jobs.config.load import load_settings
from spark_jobs.execution.spark import Spark
from spark_jobs.flow import Step
from spark_jobs.kafka.log.segment import scan_result
from spark_jobs.lake.chain import read_chain
from spark_jobs.lake.layout import object_key
from spark_jobs.lake.manifest import StagedObjects
from spark_jobs.lake.parquet_file import iter_rows, read_table
from spark_jobs.lake.stores import open_source
from spark_jobs.pipeline.context import RunContext
from spark_jobs.pipeline.index import step as index
from spark_jobs.pipeline.stage.step import open_run
from spark_jobs.tables.index import INDEX, INDEX_FILES
from tests.pipeline.index.objects import batch, marker, nested_object, plain_object
from tests.pipeline.index.reading import index_bytes
from tests.pipeline.runs import BROKER_LOG, CAPTURE, Place, place_at
from tests.s3_server import S3Server

SMALL_RANGES = "limits: {range_bytes: 4096}\n"


def _context(place: Place, spark: Spark) -> RunContext:
    """The first run, staged."""
    chain = read_chain(place.lake)
    folder = open_run(place.settings, place.stage(1), lake=place.lake, chain=chain)
    return RunContext(settings=place.settings, folder=folder, chain=chain, spark=spark)


def _files(context: RunContext) -> pa.Table:
    return read_table(context.lake, context.folder.key(Step.INDEX, INDEX_FILES.file))


def _rows(context: RunContext) -> pa.Table:
    """All rows of the index, in the order of its files."""
    keys = [context.folder.key(Step.INDEX, str(file)) for file in _files(context)["file"].to_pylist()]
    batches = [rows for key in keys for rows in iter_rows(context.lake, key)]
    return pa.Table.from_batches(batches, INDEX.schema).combine_chunks()


def _expected(context: RunContext, objects: dict[str, bytes]) -> pa.Table:
    """The same from whole objects, without Spark."""
    tables = []
    for entry in context.manifest.batches:
        _, rows = index_bytes(objects[entry.path])
        orders = pa.array([entry.order] * rows.num_rows, pa.int32())
        tables.append(rows.set_column(0, INDEX.schema.field(0), orders))
    return pa.concat_tables(tables).combine_chunks()


@pytest.fixture
def run(tmp_path: Path) -> Place:
    return place_at(tmp_path, CAPTURE + SMALL_RANGES)


def _arrive(run: Place, **objects: bytes) -> dict[str, bytes]:
    """Objects `topic_partition_name` of the first run."""
    found = {f"dt=2024-05-01/{'-'.join(key.split('_')[:2])}/{key[-1]}": data for key, data in objects.items()}
    for path, data in found.items():
        run.arrive(path).write_bytes(data)
    return found


def test_rows_are_those_of_whole_objects_in_arrival_order(run: Place, spark: Spark) -> None:
    objects = _arrive(
        run,
        orders_0_a=plain_object(120),
        orders_0_b=b"",
        orders_0_c=nested_object(30) + marker(1),
        orders_0_d=plain_object(3),
        orders_1_a=batch(0, value=nested_object(40)),
        payments_0_a=plain_object(2),
    )
    context = _context(run, spark)

    result = index.run(context)

    assert _rows(context).equals(_expected(context, objects))
    assert result.counts == {
        "objects": 6,
        "bytes": sum(map(len, objects.values())),
        "batches": 120 + 31 + 3 + 1 + 2,
        "problems": 0,
    }


def test_the_files_table_names_every_file_with_its_rows_and_bytes(run: Place, spark: Spark) -> None:
    objects = _arrive(run, orders_0_a=plain_object(120), orders_0_b=plain_object(3))
    context = _context(run, spark)

    result = index.run(context)

    files = _files(context)
    assert files.schema.equals(INDEX_FILES.schema, check_metadata=True)
    assert pc.sum(files["bytes"]).as_py() == sum(map(len, objects.values()))
    assert pc.sum(files["rows"]).as_py() == 123
    assert {output.path for output in result.outputs} == {INDEX_FILES.file, *files["file"].to_pylist()}
    for output in result.outputs:
        stat = context.lake.stat(context.folder.key(Step.INDEX, output.path))
        assert stat is not None
        assert stat.size == output.size


def test_damage_is_rows_with_reasons_and_no_byte_is_lost(run: Place, spark: Spark) -> None:
    flipped = bytearray(plain_object(100))
    flipped[len(flipped) // 2] ^= 1
    objects = _arrive(
        run,
        orders_0_a=bytes(flipped),
        orders_0_b=plain_object(90)[:-7],
        orders_1_a=plain_object(1) + bytes(9000),
        orders_1_b=b"not a batch" * 100,
    )
    context = _context(run, spark)

    result = index.run(context)

    rows = _rows(context)
    assert rows.equals(_expected(context, objects))
    assert pc.sum(rows["size"]).as_py() == sum(map(len, objects.values()))
    assert result.counts["problems"] == len(rows.filter(pc.is_valid(rows["problem"]))) == 4
    assert len(result.messages) == 4
    assert "orders-0/b at byte" in result.messages[1]
    assert "torn batch" in result.messages[1]


def test_an_object_that_vanished_from_staging_is_a_row_and_a_message(run: Place, spark: Spark) -> None:
    _arrive(run, orders_0_a=plain_object(120), orders_0_b=plain_object(3))
    context = _context(run, spark)
    gone, stays = context.manifest.batches
    run.lake.delete(object_key(gone.sha256))

    result = index.run(context)

    rows = _rows(context).to_pylist()
    assert [(row["object_order"], row["size"]) for row in rows[:1]] == [(gone.order, gone.size)]
    assert "cannot be read" in rows[0]["problem"]
    assert [row["object_order"] for row in rows[1:]] == [stays.order] * 3
    assert len(result.messages) == 1
    assert "orders-0/a at byte 0" in result.messages[0]


def test_replicas_of_a_partition_are_copies_of_their_own(tmp_path: Path, spark: Spark) -> None:
    place = place_at(tmp_path, BROKER_LOG)
    segment, tail = plain_object(4), plain_object(2)
    for replica in ("broker-1", "broker-2"):
        place.arrive(f"{replica}/orders-0/00000000000000000000.log", segment)
        place.arrive(f"{replica}/orders-0/00000000000000000004.log", tail)
    place.arrive("broker-1/orders-0/00000000000000000004.snapshot", b"no batches in here")
    context = _context(place, spark)

    index.run(context)

    files = _files(context)
    assert files["copy"].to_pylist() == [0, 1]
    assert files["directory"].to_pylist() == ["broker-1/orders-0", "broker-2/orders-0"]
    assert files["rows"].to_pylist() == [6, 6]


def test_captures_of_a_partition_are_one_copy_whatever_their_directories(run: Place, spark: Spark) -> None:
    for gateway in ("east", "west"):
        run.arrive(f"dt=2024-05-01/{gateway}/orders-0/a", plain_object(2))
    context = _context(run, spark)

    index.run(context)

    assert set(_files(context)["copy"].to_pylist()) == {0}


def test_the_documented_example_is_indexed_to_the_last_batch(tmp_path: Path, spark: Spark) -> None:
    example = Path(__file__).parents[3] / "infra" / "example" / "onceover.yaml"
    place = Place(tmp_path, load_settings(example).model_copy(update={"lake": str(tmp_path / "lake")}))
    context = _context(place, spark)

    result = index.run(context)

    segments = [StagedObjects(place.settings).read(entry) for entry in context.manifest.batches]
    assert result.counts["batches"] == sum(len(scan_result(segment).batches) for segment in segments) > 100
    assert result.counts["problems"] == 0


def test_an_empty_run_has_an_empty_index(run: Place, spark: Spark) -> None:
    Path(run.settings.sources[0].root).mkdir()
    context = _context(run, spark)

    result = index.run(context)

    assert result.counts == {"objects": 0, "bytes": 0, "batches": 0, "problems": 0}
    assert _files(context).num_rows == 0


@pytest.fixture
def spark_with_keys(spark: Spark, s3_server: S3Server) -> Iterator[Spark]:
    """Workers that know the credentials, which were made up after Spark had started."""
    environment = spark.session.sparkContext.environment
    environment.update(s3_server.environment)
    yield spark
    for name in s3_server.environment:
        del environment[name]


@pytest.mark.parametrize("immutable", [True, False])
def test_a_bucket_gives_the_rows_of_a_directory(
    tmp_path: Path, spark_with_keys: Spark, s3_server: S3Server, *, immutable: bool
) -> None:
    near = CAPTURE + SMALL_RANGES
    bucket = f"s3://{s3_server.new_bucket()}"
    far = near.replace("root: capture", f"root: {bucket}/capture").replace(
        "lake: lake", f"lake: {bucket}/lake"
    )
    far = far.replace("kind: capture", f"kind: capture\n    immutable: {str(immutable).lower()}")
    far += f"s3: {{endpoint_url: '{s3_server.endpoint_url}', addressing: path}}\n"
    places = [place_at(tmp_path, config) for config in (near, far)]
    for place in places:
        source = open_source(place.settings, place.settings.sources[0])
        source.put("dt=2024-05-01/orders-0/a", nested_object(30))
        source.put("dt=2024-05-01/orders-0/b", plain_object(3))
    contexts = [_context(place, spark_with_keys) for place in places]

    for context in contexts:
        index.run(context)

    expected, found = map(_rows, contexts)
    assert expected.num_rows == 33
    assert found.equals(expected)
