"""The published tables, read by two engines, hold exactly what a real consumer got."""

import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pyiceberg.catalog import Catalog

from spark_jobs.config.load import parse_settings
from spark_jobs.config.settings import Settings
from spark_jobs.flow import Step
from spark_jobs.lake.iceberg.catalog import open_catalog
from spark_jobs.lake.ledger import Ledger
from spark_jobs.pipeline.context import RunContext, StepResult
from spark_jobs.pipeline.materialise import step as materialise
from spark_jobs.pipeline.publish import step as publish
from tests.pipeline.materialise.truth import DATA, as_truth, in_order, recorded_partitions, truth_of
from tests.pipeline.resolved import do, do_until_published, resolved_run

DAY = date(2024, 5, 1)
CONFIG = "onceover.yaml"


def _settings(place: Path, recording: str) -> Settings:
    """The configuration of a lake in `place`; also a file there."""
    root = DATA / recording / "data"
    config = f"lake: lake\nsources: [{{name: broker, kind: broker-log, root: '{root}', immutable: true}}]\n"
    (place / CONFIG).write_text(config)
    return parse_settings(config, name=CONFIG, base=place)


def _by_pyiceberg(catalog: Catalog) -> list[dict[str, Any]]:
    found = []
    for name in catalog.list_tables("topics"):
        table = catalog.load_table(name)
        found += [
            as_truth(table.properties["onceover.topic"], row) for row in table.scan().to_arrow().to_pylist()
        ]
    return in_order(found)


def _by_duckdb(catalog: Catalog) -> list[dict[str, Any]]:
    found = []
    for name in catalog.list_tables("topics"):
        table = catalog.load_table(name)
        files = [task.file.file_path for task in table.scan().plan_files()]
        if files:
            rows = duckdb.read_parquet(files).to_arrow_table().to_pylist()
            found += [as_truth(table.properties["onceover.topic"], row) for row in rows]
    return in_order(found)


@pytest.mark.parametrize("recording", ["oracle_D", "oracle_E", "workload_clean"])
def test_the_tables_hold_the_records_that_a_consumer_got(recording: str, tmp_path: Path) -> None:
    settings = _settings(tmp_path, recording)
    results = do_until_published(resolved_run(settings, recorded_partitions(recording), day=DAY))
    truth = truth_of(recording)
    with open_catalog(settings) as catalog:
        assert _by_pyiceberg(catalog) == truth
        assert _by_duckdb(catalog) == truth
    assert results[Step.MATERIALISE].counts["records"] == len(truth)
    assert results[Step.MATERIALISE].counts["unreadable"] == 0


@contextmanager
def _dying_publishers(place: Path, run_id: str) -> Iterator[Callable[[int, str], int]]:
    """A function that lets a process publish the run and die at a change; the answer is how it ended."""
    command = [sys.executable, "-m", "tests.pipeline.publish_and_die", str(place / CONFIG), run_id]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        orders, answers = process.stdin, process.stdout

        def publish_and_die(number: int, moment: str) -> int:
            print(number, moment, file=orders, flush=True)
            return int(answers.readline())

        yield publish_and_die
        orders.close()


def _cuts(catalog: Catalog) -> dict[str, Any]:
    """Of every table the rows, the tags, and how many snapshots there are."""
    names = [name for namespace in catalog.list_namespaces() for name in catalog.list_tables(namespace)]
    tables = {".".join(name): catalog.load_table(name) for name in names}
    return {
        name: (
            sorted(map(str, table.scan().to_arrow().to_pylist())),
            sorted(table.refs()),
            len(table.snapshots()),
        )
        for name, table in tables.items()
    }


def _made(place: Path) -> tuple[Settings, RunContext]:
    """A small run right before its publication."""
    settings = _settings(place, "oracle_E")
    chosen = [path for path in recorded_partitions("oracle_E") if path.name in {"lat-0", "orc-1"}]
    context = resolved_run(settings, chosen, day=DAY)
    do(context, Step.MATERIALISE, materialise.run)
    do(context, Step.AUDIT, lambda _: StepResult(outputs=()))
    return settings, context


def test_a_process_that_dies_at_any_change_of_the_catalog_adds_nothing_twice(tmp_path: Path) -> None:
    for name in ("undisturbed", "killed"):
        (tmp_path / name).mkdir()
    settings, context = _made(tmp_path / "undisturbed")
    do(context, Step.PUBLISH, publish.run)
    with open_catalog(settings) as catalog:
        expected = _cuts(catalog)

    place = tmp_path / "killed"
    settings, context = _made(place)
    changes = 2 + len(expected)  # both namespaces; table creation and first snapshot are one commit
    with _dying_publishers(place, context.folder.run_id) as publish_and_die:
        for number, moment in ((1, "before"), *((number, "after") for number in range(1, changes + 1))):
            shutil.rmtree(place / "lake" / "catalog", ignore_errors=True)
            shutil.rmtree(place / "lake" / "tables", ignore_errors=True)
            assert publish_and_die(number, moment) == -signal.SIGKILL
            do(context, Step.PUBLISH, publish.run)
            with open_catalog(settings) as catalog:
                assert _cuts(catalog) == expected, (number, moment)
        assert publish_and_die(changes + 1, "before") == 0


def test_before_it_is_published_nothing_is_visible(tmp_path: Path) -> None:
    settings, _ = _made(tmp_path)
    with open_catalog(settings) as catalog:
        assert _cuts(catalog) == {}


def test_publishing_again_changes_nothing(tmp_path: Path) -> None:
    settings, context = _made(tmp_path)
    do(context, Step.PUBLISH, publish.run)
    with open_catalog(settings) as catalog:
        before = [catalog.load_table(name).metadata for name in catalog.list_tables("topics")]
    do(context, Step.PUBLISH, publish.run)
    with open_catalog(settings) as catalog:
        assert [catalog.load_table(name).metadata for name in catalog.list_tables("topics")] == before


def test_another_run_of_the_run_replaces_the_first(tmp_path: Path) -> None:
    """The second run has other settings, so it is another run; its records are the same."""
    settings, context = _made(tmp_path)
    do(context, Step.PUBLISH, publish.run)
    with open_catalog(settings) as catalog:
        before = _by_pyiceberg(catalog)
    limits = settings.limits.model_copy(update={"file_bytes": 2**20})
    other = resolved_run(
        settings.model_copy(update={"limits": limits}),
        [path for path in recorded_partitions("oracle_E") if path.name in {"lat-0", "orc-1"}],
        day=DAY,
    )
    assert other.folder.run_id != context.folder.run_id
    do_until_published(other)
    with open_catalog(settings) as catalog:
        assert _by_pyiceberg(catalog) == before
        runs = catalog.load_table(("onceover", "runs")).scan().to_arrow().column("run_id").to_pylist()
        tags = catalog.load_table(("topics", "orc")).refs().keys()
    assert runs == [other.folder.run_id]
    assert {context.folder.run_id, other.folder.run_id} <= tags


def test_a_restaged_run_takes_away_what_a_failed_run_of_the_date_left_in_other_tables(tmp_path: Path) -> None:
    """The failed run published `lat` and never became final; the restaged one has nothing of that topic."""
    settings, failed = _made(tmp_path)
    Ledger(failed.lake).started(failed.folder.inputs)
    do(failed, Step.PUBLISH, publish.run)
    orc = [path for path in recorded_partitions("oracle_E") if path.name == "orc-1"]
    restaged = resolved_run(settings, orc, day=DAY)
    Ledger(restaged.lake).started(restaged.folder.inputs)
    do_until_published(restaged)
    with open_catalog(settings) as catalog:
        assert catalog.load_table(("topics", "lat")).scan().to_arrow().num_rows == 0
        assert catalog.load_table(("topics", "orc")).scan().to_arrow().num_rows > 0
