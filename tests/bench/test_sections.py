"""The benchmark does not rot: every section runs on next to nothing; no clock is judged."""

from dataclasses import replace
from importlib import import_module
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from spark_jobs.execution.spark import Spark
from spark_jobs.kafka.formats.record_batch import Codec
from tests.bench import growth, ids, knobs, large, onceover, readers, whole_runs
from tests.bench.__main__ import SECTIONS, parse, volume_of
from tests.bench.floor import run_floor
from tests.bench.live_broker import consumer_row
from tests.bench.mix_data import objects_of
from tests.bench.page import blocks, fill, headline, whole_cells
from tests.bench.plots import write_plots
from tests.bench.workspace import TINY, Results, Row, Workspace, save, saved
from tests.in_process import InProcess

GIVEN_AWAY = {"DuckDB, decoded records", "plain PySpark"}


@pytest.fixture(scope="module")
def space(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return Workspace(home=tmp_path_factory.mktemp("bench"), volume=TINY, spark=InProcess())


@pytest.fixture(scope="module")
def published(space: Workspace) -> Row:
    return onceover.capture_run(space, Codec.LZ4)


def test_the_floor_writes_the_very_records_that_onceover_publishes(
    space: Workspace, published: Row, tmp_path: Path
) -> None:
    found = run_floor(space.capture(Codec.LZ4), tmp_path, 1)
    assert found.records == published.records
    assert sum(pq.read_metadata(path).num_rows for path in tmp_path.iterdir()) == published.records


def test_a_run_has_aborted_transactions_and_duplicates(space: Workspace, published: Row) -> None:
    log = onceover.broker_log_run(space, Codec.LZ4)
    assert log.records == published.records
    assert 0.9 < log.bytes / published.bytes < 0.99


def test_whole_runs_give_the_same_records_with_and_without_markers_on_files_and_on_s3(
    space: Workspace, published: Row
) -> None:
    rows = {row.title.removeprefix("whole run, "): row for row in whole_runs.measure(space)}
    again = rows.pop("files, broker-log, next copy")
    log = rows.pop("files, broker-log")
    assert {row.records for row in rows.values() if not row.note} == {published.records}
    assert log.records + again.records == published.records
    assert all(row.seconds > row.numbers["index s"] for row in rows.values() if not row.note)
    on_s3 = [row for title, row in rows.items() if "S3" in title and not row.note]
    assert all("network bytes" in row.numbers for row in on_s3)


def test_a_large_run_is_measured_and_its_data_removed(space: Workspace) -> None:
    floor, run = large.measure(space)
    assert 0 < run.records == floor.records
    assert list((space.home / "mix").glob(f"*-{space.volume.large_records}-*")) == []


def test_others_come_to_the_same_records(space: Workspace, published: Row, spark: Spark) -> None:
    rivals = [
        row
        for section in ("duck", "plain_spark")
        for row in import_module(f"tests.bench.{section}").measure(replace(space, spark=spark))
    ]
    assert {row.title: row.records for row in rivals} == dict.fromkeys(GIVEN_AWAY, published.records)


def test_readers_of_the_log_have_the_same_records(space: Workspace, published: Row) -> None:
    log = onceover.accepted_log(space, Codec.LZ4)
    rows = [readers.decoding_row(space, log), readers.read_log_row(space, log)]
    assert {row.records for row in rows} == {published.records}
    rows += [readers.query_row(space, log), readers.parquet_row(space, log)]
    readers.check_records(rows, rows[0].records)
    assert all(row.records for row in rows)
    with pytest.raises(AssertionError, match="expected 1 records, found"):
        readers.check_records(rows, 1)


@pytest.mark.parametrize("section", ["verdicts", "commits", "kernels"])
def test_a_section_measures_something(space: Workspace, published: Row, section: str) -> None:
    rows = import_module(f"tests.bench.{section}").measure(space)
    assert rows
    assert all(row.seconds > 0 or row.numbers for row in rows)


@pytest.mark.parametrize("kind", ids.MAKERS)
def test_the_step_finds_ids_of_history_among_generated_hashes(space: Workspace, kind: str) -> None:
    history = ids.History(place=space.home / "ids" / kind, kind=kind, ids=800, dates=2)
    ids.build(space, history)
    row = ids.step_row(space, history, 2, with_generated=True)
    assert (row.records, row.numbers["new ids"]) == (800, 798)
    assert row.data == "0.016 M"


def test_inspect_is_measured_in_every_case(space: Workspace, published: Row) -> None:
    from tests.bench.dump_log import cases, measure_case

    some = (replace(case, ways=dict([*case.ways.items()][:1])) for case in cases(space))
    found = [row for case in some for row in measure_case(space, case, None)]
    assert [row.title for row in found] == ["headers", "headers", "records as JSON"]
    assert all(row.bytes and row.seconds for row in found)


def test_inspect_and_kafka_are_compared_by_rates(tmp_path: Path) -> None:
    numbers = {"Kafka bytes": 5e6, "Kafka s": 1.0}
    save(
        tmp_path,
        "dump_log",
        [Row(title="records", data="lz4", seconds=2.0, bytes=200_000_000, numbers=numbers)],
    )
    (line,) = headline(saved(tmp_path))
    assert (line.ratio, line.found) == (20.0, "100 MB/s; kafka-dump-log 5 MB/s")


@pytest.mark.parametrize("axis", growth.AXES, ids=lambda axis: axis.name)
def test_growth_is_measured_along_every_axis(space: Workspace, axis: growth.Axis) -> None:
    found = growth.measure_axis(space, axis)
    assert [row.numbers["amount"] for row in found] == [axis.least]


def test_a_knob_is_turned(space: Workspace, published: Row) -> None:
    turned = knobs._limit(space, space.capture(Codec.LZ4), "file_bytes", "1MiB")
    assert turned.records == published.records
    assert turned.numbers["files"] > 1


def test_the_consumers_own_line_has_its_fetch_time() -> None:
    printed = (
        "2026-11-16 08:00:00:000, 2026-11-16 08:00:05:000, 1.0, 1.0, 1000, 200.0, 3000, 2000, 0.5, 500.0\n"
    )
    found = consumer_row(printed, "lz4")
    assert (found.records, found.seconds) == (1000, 2.0)


def test_data_is_written_once(space: Workspace) -> None:
    before = {path: path.stat().st_mtime_ns for path in objects_of(space.capture(Codec.LZ4))}
    assert before
    assert before == {path: path.stat().st_mtime_ns for path in objects_of(space.capture(Codec.LZ4))}


def test_results_are_kept_and_become_tables_and_pictures(tmp_path: Path) -> None:
    floor = Row(title="floor", data="lz4", seconds=2.0, records=100)
    numbers = {"read bytes": 190.0, "worker MB": 10.0, "moved bytes": 1.0, "index s": 1.0}
    run = Row(title="onceover", data="lz4", seconds=2.5, records=100, bytes=100, numbers=numbers)
    runs = [Row(title="files", seconds=s, numbers={"amount": n}) for s, n in ((1.0, 10.0), (5.0, 40.0))]
    for section, rows in {"floor": [floor], "onceover": [run], "growth": runs}.items():
        save(tmp_path, section, rows)
    kept = saved(tmp_path)
    assert [cells[4:7] for cells in whole_cells(kept)] == [("1.00", "", ""), ("1.25", "at most 1.5", "met")]
    assert blocks(kept)["tap"].rows == []
    assert ("files", "40", "5.0", "1.25") in [row[:4] for row in blocks(kept)["growth"].rows]
    write_plots(kept, tmp_path)
    assert {path.name for path in tmp_path.glob("*.svg")} == {"throughput.svg", "growth.svg"}
    assert all(isinstance(found, Results) for found in kept.values())


PAGE = """a
<!-- when -->
Measured on 2026-11-01 and 2026-11-02 on a machine.
<!-- /when -->
<!-- growth -->
| what grows | how many | s | by linear |
| --- | --- | --- | --- |
| files | 10 | 9.0 | 1.00 |
| files per commit | 100 | 3.0 | 1.00 |
| renamed (2026-10-01) | 7 | 2.0 | 1.00 |
<!-- /growth -->
<!-- tap -->
as it was
<!-- /tap -->
b
"""


def test_rows_of_sections_that_were_not_measured_stay_in_the_page(tmp_path: Path) -> None:
    save(tmp_path, "growth", [Row(title="files", seconds=1.0, numbers={"amount": 10.0})])
    kept = saved(tmp_path)
    day = kept["growth"].measured_at[:10]

    found = fill(PAGE, kept)

    assert f"Measured on {day} on " in found
    assert found.startswith("a\n")
    assert found.endswith("<!-- tap -->\nas it was\n<!-- /tap -->\nb\n")
    rows = [line.split(" | ")[:3] for line in found.splitlines() if line.startswith("| ")][2:]
    assert rows == [
        ["| files", "10", "1.0"],
        ["| files per commit (2026-11-02)", "100", "3.0"],
        ["| renamed (2026-10-01)", "7", "2.0"],
    ]
    assert fill(found, kept) == found

    save(tmp_path, "commits", [Row(title="commit", seconds=1.0, numbers={"amount": 10.0})])
    assert "files per commit" not in fill(found, saved(tmp_path))


def test_nothing_measured_changes_nothing() -> None:
    assert fill(PAGE, {}) == PAGE


def test_arguments_choose_sections_and_volumes(capsys: pytest.CaptureFixture[str]) -> None:
    chosen = parse(["--only", "floor,duck", "--records", "5", "--codecs", "zstd"])
    assert (chosen.sections, volume_of(chosen).records) == (("floor", "duck"), 5)
    assert volume_of(chosen).codecs == (Codec.ZSTD,)
    assert parse([]).sections == SECTIONS
    with pytest.raises(SystemExit):
        parse(["--only", "nothing"])
    assert "no such section: nothing" in capsys.readouterr().err
