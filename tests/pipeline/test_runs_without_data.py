"""A run that reads nothing, nothing of Kafka's, or nothing that can be used fails with advice."""

import shutil
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from expectations.gate import AuditFailed
from spark_jobs.cli import app
from spark_jobs.config.load import parse_settings
from spark_jobs.config.settings import Settings
from spark_jobs.flow import Step
from spark_jobs.kafka.formats.batch_builder import build_batch
from spark_jobs.kafka.formats.records import Record
from spark_jobs.lake.layout import step_key
from spark_jobs.lake.ledger import RunStatus, list_runs
from spark_jobs.lake.parquet_file import read_table
from spark_jobs.lake.stores import open_lake
from spark_jobs.pipeline.report.run_page import headline
from spark_jobs.pipeline.report.run_tables import RunTables
from spark_jobs.progress import RunProgress
from spark_jobs.run import RunOutcome, execute_run
from spark_jobs.tables.audit import EXPECTATION_RESULTS
from tests.in_process import InProcess
from tests.pipeline.recorded_captures import DATA, appended

pytestmark = pytest.mark.usefixtures("great_expectations")

LOG = f"{0:020d}.log"
BROKER = "lake: lake\nsources: [{name: broker, kind: broker-log, root: broker}]\n"
GATEWAY = "lake: lake\nsources: [{name: gateway, kind: capture, root: gateway, dates: dt=%Y-%m-%d}]\n"
BOTH = f"{BROKER[:-2]}, {GATEWAY.partition('[')[2]}".replace(", dates: dt=%Y-%m-%d", "")
UNDATED = GATEWAY.replace(", dates: dt=%Y-%m-%d", "")


def _settings(place: Path, text: str) -> Settings:
    settings = parse_settings(text, name="onceover.yaml", base=place)
    for source in settings.sources:
        Path(source.root).mkdir(parents=True, exist_ok=True)
    return settings


def _run(settings: Settings, number: int = 1, until: Step = Step.PUBLISH) -> RunOutcome:
    progress = RunProgress(Console(quiet=True))
    return execute_run(settings, date(2024, 5, number), until=until, spark=InProcess(), progress=progress)


def _refused(settings: Settings, number: int = 1) -> str:
    with pytest.raises(AuditFailed) as caught:
        _run(settings, number)
    return str(caught.value)


def _failed(settings: Settings, outcome: RunOutcome) -> dict[str, dict[str, Any]]:
    key = step_key(outcome.run_id, Step.AUDIT, EXPECTATION_RESULTS.file)
    rows = read_table(open_lake(settings), key).to_pylist()
    return {row["expectation"]: row for row in rows if row["success"] is False}


def _batch(number: int, **named: Any) -> bytes:
    return build_batch(
        records=[Record(value=b"v")],
        base_timestamp=1_714_550_400_000 + number,
        base_offset=number,
        partition_leader_epoch=0,
        **named,
    )


def _append(place: Path, partition: str, number: int) -> None:
    directory = place / "broker" / partition
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / LOG).open("ab") as log:
        log.write(_batch(number))


def _capture(place: Path, path: str, data: bytes = b"") -> None:
    file = place / "gateway" / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data or _batch(0))


@pytest.mark.parametrize("text", [BROKER, GATEWAY, UNDATED], ids=["broker-log", "capture by date", "capture"])
def test_a_source_that_never_had_an_object_stops_the_run(tmp_path: Path, text: str) -> None:
    message = _refused(_settings(tmp_path, text))
    assert "sources/sources_have_objects" in message
    assert "no objects below " in message
    assert "expected directories named <topic>-<partition>, such as orders-0" in message


@pytest.mark.parametrize(
    ("text", "paths", "reason"),
    [
        (
            BROKER,
            ["broker/kafka/orders/0_23/0-1-v1.log", "broker/kafka/orders/0_23/0-1-v1.base_index"],
            (
                "2 objects (kafka/orders/0_23/0-1-v1.base_index, kafka/orders/0_23/0-1-v1.log), none of them"
                " recognised: this is a data directory of Redpanda"
            ),
        ),
        (
            BROKER,
            [f"broker/{LOG}"],
            "root is the directory of one partition; it should be the directory above",
        ),
        (BROKER, ["broker/meta.properties"], "this is a log directory without partitions"),
        (
            BROKER,
            [f"broker/{name}.csv" for name in "abcde"],
            (
                "5 objects (a.csv, b.csv, c.csv, …), none of them recognised: none is in a"
                " <topic>-<partition> directory; root should be the directory that holds orders-0"
            ),
        ),
        (UNDATED, ["gateway/orders/0/a"], "none is in a <topic>-<partition> directory"),
        (
            GATEWAY,
            ["gateway/raw/dt=2024-05-01/orders-0/a"],
            "their directories do not spell a date as dt=%Y-%m-%d; see dates and root",
        ),
        (
            UNDATED.replace("root:", "topics: {include: [payments]}, root:"),
            ["gateway/orders-0/a"],
            "they are of topics that the source leaves out, such as orders; see topics",
        ),
    ],
    ids=["Redpanda", "too deep", "no partitions", "something else", "no partition", "no date", "left out"],
)
def test_a_source_in_which_nothing_is_recognised_stops_the_run(
    tmp_path: Path, text: str, paths: list[str], reason: str
) -> None:
    settings = _settings(tmp_path, text)
    for path in paths:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(b"x")
    message = _refused(settings)
    assert "sources/sources_are_recognised" in message
    assert reason in message


def test_the_reason_is_shown_after_stage_too_where_no_audit_follows(tmp_path: Path) -> None:
    (tmp_path / "onceover.yaml").write_text(BROKER)
    _settings(tmp_path, BROKER)
    arguments = ["run", "--config", str(tmp_path / "onceover.yaml"), "--date", "2024-05-01", "--until"]
    result = CliRunner().invoke(app, [*arguments, "stage"])
    assert result.exit_code == 0
    assert "source broker: no objects below" in " ".join(result.stderr.split())


def test_the_exit_code_the_list_of_runs_and_the_dashboard_show_it(tmp_path: Path) -> None:
    config = tmp_path / "onceover.yaml"
    config.write_text(BROKER)
    settings = _settings(tmp_path, BROKER)
    result = CliRunner().invoke(app, ["run", "--config", str(config), "--date", "2024-05-01"])
    assert result.exit_code == 1
    assert "1 critical expectation failed, nothing is published" in result.stderr
    (line,) = list_runs(open_lake(settings))
    assert line.status is RunStatus.FAILED
    listed = CliRunner().invoke(app, ["runs", "--config", str(config)])
    assert "failed" in listed.stdout
    assert "sources_have_objects" in listed.stdout
    shown = headline(line, RunTables(open_lake(settings), line.run_id))
    assert (shown["status"], shown["step"], shown["critical"]) == ("failed", "audit", 1)
    assert (tmp_path / "lake" / "dashboard" / "index.html").exists()


def test_a_quiet_day_of_a_capture_by_date_is_a_warning(tmp_path: Path) -> None:
    settings = _settings(tmp_path, GATEWAY)
    _capture(tmp_path, "dt=2024-05-01/orders-0/a")
    assert _failed(settings, _run(settings, 1)) == {}
    outcome = _run(settings, 2)
    (failure,) = _failed(settings, outcome).values()
    assert (failure["expectation"], failure["severity"]) == ("sources_bring_new_objects", "warning")
    assert outcome.is_final


def test_even_when_its_directories_of_the_last_days_are_gone(tmp_path: Path) -> None:
    settings = _settings(tmp_path, GATEWAY.replace("dates:", "lookback_days: 1, dates:"))
    _capture(tmp_path, "dt=2024-05-01/orders-0/a")
    _run(settings, 1)
    assert set(_failed(settings, _run(settings, 9))) == {"sources_bring_new_objects"}


def test_a_copy_that_is_emptied_stops_the_run(tmp_path: Path) -> None:
    settings = _settings(tmp_path, BROKER)
    _append(tmp_path, "orders-0", 0)
    _run(settings, 1)
    shutil.rmtree(tmp_path / "broker" / "orders-0")
    message = _refused(settings, 2)
    assert "2 critical expectations failed" in message
    assert "sources/sources_have_objects" in message
    assert "orders-0 had segments in the copy of the last run and have none now" in message


def test_a_copy_that_was_not_made_again_is_a_warning(tmp_path: Path) -> None:
    settings = _settings(tmp_path, BROKER)
    _append(tmp_path, "orders-0", 0)
    _run(settings, 1)
    failures = _failed(settings, _run(settings, 2))
    assert set(failures) == {"sources_bring_new_objects"}
    assert "is the copy or the capture still running?" in failures["sources_bring_new_objects"]["examples"][0]


def test_a_seed_may_stay_as_it_is(tmp_path: Path) -> None:
    settings = _settings(tmp_path, BOTH.replace("broker-log,", "broker-log, seed: true,"))
    _append(tmp_path, "orders-0", 0)
    for number in (1, 2):
        _capture(tmp_path, f"{number}/orders-0/a", _batch(number))
        assert _failed(settings, _run(settings, number)) == {}


def test_partitions_that_vanish_from_the_copy_stop_the_run(tmp_path: Path) -> None:
    settings = _settings(tmp_path, BROKER)
    for number in range(3):
        _append(tmp_path, f"orders-{number}", 0)
    _run(settings, 1)
    _append(tmp_path, "orders-0", 1)
    shutil.rmtree(tmp_path / "broker" / "orders-1")
    (tmp_path / "broker" / "orders-2" / LOG).rename(tmp_path / "broker" / "orders-2" / "stray")
    message = _refused(settings, 2)
    assert "1 critical expectation failed" in message
    assert "sources/partitions_are_still_there" in message
    assert "orders-1, orders-2 had segments in the copy of the last run and have none now" in message


def test_a_deleted_topic_is_accepted_by_leaving_it_out(tmp_path: Path) -> None:
    settings = _settings(tmp_path, BROKER)
    for topic in ("orders", "old"):
        _append(tmp_path, f"{topic}-0", 0)
    _run(settings, 1)
    _append(tmp_path, "orders-0", 1)
    shutil.rmtree(tmp_path / "broker" / "old-0")
    _refused(settings, 2)
    settings = _settings(tmp_path, BROKER.replace("root:", "topics: {exclude: [old]}, root:"))
    assert _failed(settings, _run(settings, 2)) == {}


def test_or_by_a_severity_for_one_run_and_is_not_missed_again(tmp_path: Path) -> None:
    settings = _settings(tmp_path, BROKER)
    for topic in ("orders", "old"):
        _append(tmp_path, f"{topic}-0", 0)
    _run(settings, 1)
    _append(tmp_path, "orders-0", 1)
    shutil.rmtree(tmp_path / "broker" / "old-0")
    _refused(settings, 2)
    mild = _settings(tmp_path, BROKER + "audit: {severities: {partitions_are_still_there: warning}}\n")
    assert set(_failed(mild, _run(mild, 2))) == {"partitions_are_still_there"}
    _append(tmp_path, "orders-0", 2)
    assert _failed(settings, _run(settings, 3)) == {}


def test_a_partition_that_retention_has_emptied_is_there(tmp_path: Path) -> None:
    settings = _settings(tmp_path, BROKER)
    for number in range(2):
        _append(tmp_path, f"orders-{number}", 0)
    _run(settings, 1)
    _append(tmp_path, "orders-0", 1)
    directory = tmp_path / "broker" / "orders-1"
    (directory / LOG).unlink()
    (directory / f"{1:020d}.log").touch()
    assert _failed(settings, _run(settings, 2)) == {}


def test_a_capture_of_a_broker_s_segments_is_refused(tmp_path: Path) -> None:
    text = f"lake: lake\nsources: [{{name: s, kind: capture, root: '{DATA / 'restarts_tv2' / 'data'}'}}]\n"
    message = _refused(parse_settings(text, name="onceover.yaml", base=tmp_path))
    assert "runs/most_batches_are_accepted" in message
    assert "topic (all topics)" in message
    assert "the source is probably not of the kind that the configuration names" in message


@pytest.mark.parametrize("recording", ["restarts_tv1", "oracle_D"])
@pytest.mark.parametrize("has_coordinator", [True, False], ids=["coordinator log", "no coordinator log"])
def test_a_capture_of_older_clients_without_markers_is_refused(
    tmp_path: Path, recording: str, has_coordinator: bool
) -> None:
    """Older clients use one epoch for all transactions, so that without markers nothing divides them."""
    settings = _settings(tmp_path, BOTH + "kafka: {transaction_version: TV1}\n")
    for number, batch in enumerate(appended(recording)):
        _capture(tmp_path, f"{batch.topic_partition}/{number:06d}", batch.records)
    if has_coordinator:
        for directory in (DATA / recording / "data").glob("__transaction_state-*"):
            shutil.copytree(directory, tmp_path / "broker" / directory.name)
    message = _refused(settings)
    assert "transactions/most_transactions_are_decided" in message
    assert "batches are of an unknown outcome" in message
