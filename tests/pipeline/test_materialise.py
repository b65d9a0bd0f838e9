"""The run's own tables list every batch; what is not published is in quarantine with its bytes."""

from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from spark_jobs.config.load import parse_settings
from spark_jobs.execution.spark import Spark
from spark_jobs.flow import Step
from spark_jobs.kafka.formats.batch_builder import build_batch, seal
from spark_jobs.kafka.formats.record_batch import check_batch, read_header
from spark_jobs.kafka.formats.records import Record
from spark_jobs.lake.parquet_file import read_table
from spark_jobs.lake.table_listing import read_listing
from spark_jobs.pipeline.context import RunContext
from spark_jobs.pipeline.materialise import step as materialise
from spark_jobs.tables.publish import OWN_TABLES
from tests.pipeline.materialise.truth import recorded_partitions
from tests.pipeline.resolved import do, resolved_run

DAY = date(2024, 5, 1)


def _run(
    place: Path, source: Path, directories: list[Path], spark: Spark | None = None, more: str = ""
) -> RunContext:
    config = f"lake: lake\nsources: [{{name: broker, kind: broker-log, root: '{source}', immutable: true}}]\n"
    settings = parse_settings(config + more, name="test.yaml", base=place)
    return resolved_run(settings, directories, day=DAY, spark=spark)


def _recorded(place: Path, recording: str, spark: Spark | None = None) -> RunContext:
    directories = recorded_partitions(recording)
    return _run(place, directories[0].parent, directories, spark)


def _written(place: Path, *batches: bytes, more: str = "") -> RunContext:
    """A run of one partition whose one segment holds `batches`."""
    directory = place / "source" / "t-0"
    directory.mkdir(parents=True)
    (directory / f"{0:020d}.log").write_bytes(b"".join(batches))
    return _run(place, place / "source", [directory], more=more)


def _rows(context: RunContext, table: str) -> list[dict[str, Any]]:
    files = [entry.file for entry in read_listing(context.folder, Step.MATERIALISE) if entry.table == table]
    keys = [context.folder.key(Step.MATERIALISE, file) for file in files if file is not None]
    return [row for key in keys for row in read_table(context.lake, key).to_pylist()]


def _batch(first: int, value: bytes, **named: Any) -> bytes:
    return build_batch(records=[Record(value=value)], base_timestamp=0, base_offset=first, **named)


def test_every_batch_is_reported_of_with_its_object_and_its_transaction_s_outcome(tmp_path: Path) -> None:
    producer = {"producer_id": 1, "producer_epoch": 0, "base_sequence": 0, "is_transactional": True}
    context = _written(tmp_path, _batch(0, b"plain"), _batch(1, b"open", **producer))
    do(context, Step.MATERIALISE, materialise.run)
    path = f"t-0/{0:020d}.log"
    assert [
        (row["offset"], row["path"], row["outcome"], row["run_date"]) for row in _rows(context, "batches")
    ] == [(0, path, None, DAY), (1, path, "open", DAY)]


def test_what_its_transaction_holds_is_in_quarantine_with_its_bytes(tmp_path: Path) -> None:
    context = _recorded(tmp_path, "oracle_E")
    do(context, Step.MATERIALISE, materialise.run)
    held = _rows(context, "quarantine")
    assert held
    assert {row["kind"] for row in held} == {"held"}
    assert {row["reason"] for row in held} == {
        "its transaction is open",
        "it follows a transaction that is not decided yet",
    }
    for row in held:
        assert check_batch(row["bytes"]).base_offset == row["offset"]
        assert len(row["bytes"]) == row["size"]
    batches = _rows(context, "batches")
    expected = [
        (row["topic"], row["partition"], row["offset"]) for row in batches if row["outcome"] == "open"
    ]
    assert set(expected) <= {(row["topic"], row["partition"], row["offset"]) for row in held}


def test_a_batch_with_unfit_values_is_readable(tmp_path: Path) -> None:
    more = "topics: {t: {value: json, fields: {id: long}}}\n"
    context = _written(tmp_path, _batch(0, b'{"id": 1}'), _batch(1, b"junk"), more=more)
    result = do(context, Step.MATERIALISE, materialise.run)
    counts = result.counts
    assert (counts["records"], counts["unfit"]) == (1, 1)
    assert (counts["unreadable"], counts["unreadable_records"]) == (0, 0)
    assert result.messages == (
        "t: of the committed records 1 do not fit the topic's schema; they are in quarantine",
    )


def test_a_batch_without_readable_records_is_corrupt_in_every_account(tmp_path: Path) -> None:
    junk = seal(read_header(_batch(1, b"x")), b"\x7fjunk")
    context = _written(tmp_path, _batch(0, b"before"), junk, _batch(2, b"after"))
    result = do(context, Step.MATERIALISE, materialise.run)
    counts = result.counts
    assert (counts["records"], counts["unreadable"], counts["unreadable_records"]) == (2, 1, 1)
    assert counts["claimed"] + counts["legacy"] == (
        counts["records"] + counts["hidden"] + counts["unreadable_records"]
    )
    assert result.messages == ("t: of the committed records 1 cannot be decoded; they are in quarantine",)
    assert [row["verdict"] for row in _rows(context, "batches")] == ["accepted", "corrupt", "accepted"]
    [row] = _rows(context, "quarantine")
    assert (row["kind"], row["kafka_error"], row["offset"], row["bytes"]) == (
        "corrupt", "CORRUPT_MESSAGE", 1, junk,
    )  # fmt: skip
    assert row["reason"].startswith("broker/t-0/00000000000000000000.log at byte ")


@pytest.mark.parametrize("table", ["batches", "quarantine", "producers", "transactions", "consumer_offsets"])
def test_files_of_own_tables_have_the_columns_that_are_promised(table: str, tmp_path: Path) -> None:
    context = _recorded(tmp_path, "oracle_E")
    do(context, Step.MATERIALISE, materialise.run)
    entries = [e for e in read_listing(context.folder, Step.MATERIALISE) if e.table == table]
    assert entries
    for entry in entries:
        if entry.file is not None:
            found = read_table(context.lake, context.folder.key(Step.MATERIALISE, entry.file))
            assert [(f.name, f.type) for f in found.schema] == [
                (f.name, _stored(f.type)) for f in OWN_TABLES[table].schema
            ]


def _stored(kind: pa.DataType) -> pa.DataType:
    """Lists come back with Parquet's own name for their elements."""
    return pa.list_(pa.field("element", kind.value_type)) if isinstance(kind, pa.ListType) else kind


def test_spark_s_workers_write_the_bytes_that_one_process_writes(tmp_path: Path, spark: Spark) -> None:
    here, there = (tmp_path / name for name in ("here", "there"))
    one = do(_recorded(here, "oracle_E"), Step.MATERIALISE, materialise.run)
    other = do(_recorded(there, "oracle_E", spark), Step.MATERIALISE, materialise.run)
    assert one.outputs == other.outputs
    assert one.counts == other.counts
