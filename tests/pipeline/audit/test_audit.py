"""A run that is audited: what is in its folder, and what becomes of one that must not be published."""

import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import date
from pathlib import Path
from threading import Event
from typing import Any

import pyarrow as pa
import pytest
from rich.console import Console

from expectations.gate import AuditFailed
from spark_jobs.config.audit import ExpectationName
from spark_jobs.config.load import load_settings, parse_settings
from spark_jobs.config.settings import Settings
from spark_jobs.flow import Step
from spark_jobs.lake.iceberg.catalog import open_catalog
from spark_jobs.lake.layout import step_key
from spark_jobs.lake.ledger import RunStatus, list_runs
from spark_jobs.lake.parquet_file import put_table, read_table
from spark_jobs.lake.stores import open_lake
from spark_jobs.pipeline.audit import step as audit
from spark_jobs.pipeline.context import RunContext, StepResult
from spark_jobs.pipeline.materialise import step as materialise
from spark_jobs.progress import RunProgress
from spark_jobs.run import RunOutcome, execute_run
from spark_jobs.sample.files import CONFIG, write_sample
from spark_jobs.sample.story import RUN_DATES
from spark_jobs.tables.audit import EXPECTATION_RESULTS, PARTITION_FACTS
from tests.in_process import InProcess
from tests.pipeline.materialise.truth import DATA

pytestmark = pytest.mark.usefixtures("great_expectations")

DAY = date(2024, 5, 1)
AHEAD = "timestamp_ahead_ms: 999999999999"  # the recording was made after the day that it is run for
BROKEN = ("rows_are_the_committed_records", "record_offsets_increase", "record_sequences_are_unique")
"""What a record that is in a table twice contradicts."""
ONLY_SOMETIMES = {
    ExpectationName.EVERY_RECORD_IS_PUBLISHED_OR_A_DUPLICATE,
    ExpectationName.MOST_RECORDS_HAVE_AN_ID,
    ExpectationName.MOST_RECORDS_ARE_NO_DUPLICATES,
    ExpectationName.VERDICTS_ARE_THE_BROKERS_ANSWERS,
}
"""Expectations of runs with business ids, and with the answers of a broker."""


def _settings(place: Path, audit: str = AHEAD) -> Settings:
    root = DATA / "restarts_tv2" / "data"
    config = f"""
lake: lake
sources: [{{name: broker, kind: broker-log, root: '{root}', immutable: true}}]
audit: {{{audit}}}
"""
    return parse_settings(config, name="test.yaml", base=place)


def _run(settings: Settings, until: Step = Step.AUDIT) -> RunOutcome:
    return _run_day(settings, DAY, until)


def _run_day(settings: Settings, day: date, until: Step) -> RunOutcome:
    return execute_run(
        settings, day, until=until, spark=InProcess(), progress=RunProgress(Console(quiet=True))
    )


def _results(settings: Settings, run_id: str) -> dict[str, dict[str, Any]]:
    key = step_key(run_id, Step.AUDIT, EXPECTATION_RESULTS.file)
    return {row["expectation"]: row for row in read_table(open_lake(settings), key).to_pylist()}


def _files(place: Path) -> dict[str, bytes]:
    """What audits have written, by name."""
    found = sorted(path for path in place.glob("lake/runs/*/audit/**/*") if path.is_file())
    return {str(path.relative_to(place)): path.read_bytes() for path in found}


def _spoil(monkeypatch: pytest.MonkeyPatch, choose: Callable[[Iterable[str]], str] = min) -> None:
    """From now on `materialise` writes the first row of a file twice."""
    run = materialise.run

    def run_and_spoil(context: RunContext) -> StepResult:
        result = run(context)
        first = choose(output.path for output in result.outputs if output.path.startswith("records/"))
        folder = context.folder.key(Step.MATERIALISE)
        rows = read_table(context.lake, f"{folder}/{first}")
        output = put_table(context.lake, folder, first, pa.concat_tables([rows.slice(0, 1), rows]))
        return replace(result, outputs=(*(each for each in result.outputs if each.path != first), output))

    monkeypatch.setattr(materialise, "run", run_and_spoil)


@pytest.fixture
def spoiled(monkeypatch: pytest.MonkeyPatch) -> None:
    _spoil(monkeypatch)


def _published(settings: Settings) -> dict[str, Any]:
    """Of every table the newest snapshot and the tags."""
    with open_catalog(settings) as catalog:
        names = [name for space in catalog.list_namespaces() for name in catalog.list_tables(space)]
        tables = {".".join(name): catalog.load_table(name) for name in names}
        return {
            name: (table.metadata.current_snapshot_id, set(table.refs())) for name, table in tables.items()
        }


def _failure(act: Callable[[], object]) -> str:
    with pytest.raises(AuditFailed) as caught:
        act()
    return str(caught.value)


def test_a_recorded_run_meets_every_critical_expectation(tmp_path: Path) -> None:
    settings = _settings(tmp_path)
    outcome = _run(settings)
    results = _results(settings, outcome.run_id)
    assert set(results) == set(ExpectationName) - ONLY_SOMETIMES
    assert [
        name for name, row in results.items() if not row["success"] and row["severity"] == "critical"
    ] == []
    assert all(row["run_date"] == DAY and row["sentence"] for row in results.values())


def test_the_facts_are_those_of_the_run(tmp_path: Path) -> None:
    settings = _settings(tmp_path)
    outcome = _run(settings)
    counts = {done.step: done.counts for done in outcome.done}
    key = step_key(outcome.run_id, Step.AUDIT, PARTITION_FACTS.file)
    facts = read_table(open_lake(settings), key).to_pydict()
    assert sum(facts["batches_in"]) == sum(facts["verdicts"]) == counts[Step.ADMIT]["batches"]
    assert sum(facts["rows"]) == counts[Step.MATERIALISE]["records"] > 0
    assert sum(facts["committed_records"]) == counts[Step.MATERIALISE]["claimed"]
    assert sum(facts["keys_sampled"]) > 0


def test_another_lake_gets_the_same_bytes_docs_included(tmp_path: Path) -> None:
    places = [tmp_path / name for name in ("one", "two")]
    for place in places:
        place.mkdir()
        _run(_settings(place))
    one, two = map(_files, places)
    assert any(name.endswith("docs/index.html") for name in one)
    assert one == two


@pytest.mark.usefixtures("spoiled")
def test_a_run_that_fails_is_not_published_and_the_run_says_why(tmp_path: Path) -> None:
    settings = _settings(tmp_path)
    message = _failure(lambda: _run(settings, Step.PUBLISH))
    assert message.startswith("3 critical expectations failed, nothing is published")
    assert all(f"records/{name}" in message for name in BROKEN)
    assert _published(settings) == {}
    (line,) = list_runs(open_lake(settings))
    assert line.status is RunStatus.FAILED
    assert not _results(settings, line.run_id)["record_offsets_increase"]["success"]
    assert any(name.endswith("docs/records.html") for name in _files(tmp_path))


def test_a_second_run_that_fails_leaves_what_the_first_has_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_sample(tmp_path)
    settings = load_settings(tmp_path / CONFIG)
    first, second = RUN_DATES[:2]
    _run_day(settings, first, Step.PUBLISH)
    before = _published(settings)
    assert "onceover.expectation_results" in before
    _spoil(monkeypatch, max)  # not a topic with a business id, where `deduplicate` would stop the run
    _failure(lambda: _run_day(settings, second, Step.PUBLISH))
    assert _published(settings) == before


@pytest.mark.usefixtures("spoiled")
def test_a_finding_can_be_accepted_without_repeating_the_run(tmp_path: Path) -> None:
    severities = ", ".join(f"{name}: warning" for name in BROKEN)
    _failure(lambda: _run(_settings(tmp_path)))
    (failed,) = list_runs(open_lake(_settings(tmp_path)))
    settings = _settings(tmp_path, f"{AHEAD}, severities: {{{severities}}}")
    outcome = _run(settings)
    assert outcome.run_id == failed.run_id
    results = _results(settings, outcome.run_id)
    assert all(not results[name]["success"] and results[name]["severity"] == "warning" for name in BROKEN)


def test_the_library_is_loaded_while_the_step_before_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = Event()
    monkeypatch.setattr(audit, "prepare", begun.set)
    settings = _settings(tmp_path)
    _run(settings, Step.MATERIALISE)
    assert not begun.is_set()
    monkeypatch.setattr(
        audit, "run", lambda context: StepResult(outputs=(), counts={"begun": begun.wait(60)})
    )
    for file in (tmp_path / "lake").glob("runs/*/materialise/_done.json"):
        file.unlink()
    assert _run(settings).done[-1].counts["begun"]


def test_nobody_pays_for_the_library_before_the_audit() -> None:
    program = (
        "import sys, spark_jobs.cli, spark_jobs.pipeline.audit.step, spark_jobs.pipeline.audit.worker;"
        "sys.exit('great_expectations' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
