"""After a run its numbers are where a collector finds them, and they are the tables' own."""

import socket
import stat
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.config.settings import Address, MetricsSettings, Settings
from spark_jobs.flow import OPTIONAL, STEPS, Step
from spark_jobs.kafka.producers.verdict import Verdict
from spark_jobs.lake.iceberg.catalog import open_catalog
from spark_jobs.lake.ledger import Ledger, list_runs
from spark_jobs.lake.lock import lake_lock
from spark_jobs.lake.run_folder import RunInputs
from spark_jobs.lake.stores import open_lake
from spark_jobs.pipeline.report.metrics import METRICS, METRICS_KEY, PACKET_BYTES, publish, replace_file
from spark_jobs.sample.story import RUN_DATES
from tests.pipeline.report.metrics.conftest import OBJECTIVE, TOPIC
from tests.pipeline.report.metrics.reading import Read, only, read, types_in

LAST = RUN_DATES[-1]


def text_of(settings: Settings, run_id: str | None = None) -> str:
    lake = open_lake(settings)
    assert publish(settings, lake, run_id=run_id) == lake.url_of(METRICS_KEY)
    return lake.read(METRICS_KEY).decode()


@pytest.fixture(scope="module")
def found(published: Settings) -> Read:
    return read(text_of(published))


def test_every_metric_is_there_and_each_is_a_gauge(published: Settings) -> None:
    assert types_in(text_of(published)) == {metric.name: "gauge" for metric in METRICS}


def test_batches_are_counted_by_topic_and_verdict_as_the_table_has_them(
    published: Settings, found: Read
) -> None:
    with open_catalog(published) as catalog:
        rows = catalog.load_table("onceover.batches").scan(f"run_date == '{LAST}'").to_arrow()
    counted = Counter(zip(rows.column("topic").to_pylist(), rows.column("verdict").to_pylist(), strict=True))
    topics = {str(topic) for topic, _ in counted}
    assert found["onceover_batches"] == {
        only({"topic": topic, "verdict": verdict}): counted[topic, verdict]
        for topic in topics
        for verdict in Verdict
    }
    assert {Verdict.DUPLICATE, Verdict.OVERLAP} <= {verdict for _, verdict in counted}


def test_published_records_are_the_rows_of_the_topics_tables(published: Settings, found: Read) -> None:
    with open_catalog(published) as catalog:
        tables = {name[-1]: catalog.load_table(name) for name in catalog.list_tables("topics")}
        counted = {
            only({"topic": topic}): float(table.scan(f"run_date == '{LAST}'").to_arrow().num_rows)
            for topic, table in tables.items()
        }
    assert {labels: value for labels, value in found["onceover_published_records"].items() if value} == {
        labels: value for labels, value in counted.items() if value
    }


def test_the_newest_record_of_a_topic_is_the_newest_in_its_table(published: Settings, found: Read) -> None:
    with open_catalog(published) as catalog:
        tables = {name[-1]: catalog.load_table(name) for name in catalog.list_tables("topics")}
        times: dict[str, list[Any]] = {
            topic: table.scan(selected_fields=("timestamp",)).to_arrow().column("timestamp").to_pylist()
            for topic, table in tables.items()
        }
    assert found["onceover_newest_record_timestamp_seconds"] == {
        only({"topic": topic}): max(each).timestamp() for topic, each in times.items()
    }
    assert found["onceover_freshness_objective_seconds"] == {only({"topic": TOPIC}): OBJECTIVE}


def test_a_transaction_that_is_left_open_holds_its_readers_back(found: Read) -> None:
    assert (
        found["onceover_transactions"][only({"outcome": "ongoing"})]
        + found["onceover_transactions"][only({"outcome": "hanging"})]
    )
    assert max(found["onceover_last_stable_offset_lag"].values()) > 0


def test_the_last_success_is_the_newest_run(found: Read) -> None:
    midnight = datetime(LAST.year, LAST.month, LAST.day, tzinfo=UTC).timestamp()
    assert found["onceover_run_success"] == {only({}): 1}
    assert found["onceover_last_success_run_date_timestamp_seconds"] == {only({}): midnight}
    [labels] = found["onceover_run_info"]
    assert dict(labels)["date"] == str(LAST)


def test_every_step_of_the_run_has_a_duration(found: Read) -> None:
    steps = {dict(labels)["step"] for labels in found["onceover_step_duration_seconds"]}
    assert steps >= {step.value for step in STEPS} - {Step.REPORT, *OPTIONAL}  # report is outside of the run


def test_another_run_can_be_asked_for(published: Settings) -> None:
    first = list_runs(open_lake(published))[0]
    [labels] = read(text_of(published, first.run_id))["onceover_run_info"]
    assert dict(labels) == {"run_id": first.run_id, "date": str(RUN_DATES[0]), "status": "final"}


def test_a_run_that_failed_says_so_and_the_last_success_stays(published: Settings, found: Read) -> None:
    lake = open_lake(published)
    inputs = RunInputs(day=LAST.replace(day=LAST.day + 1), manifest="m", config="c", state_in="s")
    Ledger(lake).started(inputs)
    Ledger(lake).failed(inputs.run_id, "the disk is full")
    now = read(text_of(published))
    assert now["onceover_run_success"] == {only({}): 0}
    assert "onceover_batches" not in now
    same = ("onceover_last_success_timestamp_seconds", "onceover_last_success_run_date_timestamp_seconds")
    assert [now[name] for name in same] == [found[name] for name in same]


def test_a_run_at_work_is_not_reported_as_failed(published: Settings) -> None:
    lake = open_lake(published)
    before = text_of(published)
    with lake_lock(lake, purpose="a run at work"):
        later = LAST.replace(day=LAST.day + 2)
        Ledger(lake).started(RunInputs(day=later, manifest="m", config="c", state_in="s"))
        assert text_of(published) == before


def test_a_lake_without_runs_has_no_metrics(tmp_path: Path, published: Settings) -> None:
    empty = published.model_copy(update={"lake": str(tmp_path / "lake")})
    assert text_of(empty) == ""


def test_a_textfile_is_replaced_whole_and_can_be_read_by_the_collector(
    tmp_path: Path, published: Settings
) -> None:
    file = tmp_path / "textfile" / "onceover.prom"
    settings = published.model_copy(update={"metrics": MetricsSettings(textfile=str(file))})
    assert text_of(settings) == file.read_text()
    replace_file(file, b"onceover_run_success 1\n")
    assert file.read_bytes() == b"onceover_run_success 1\n"
    assert [path.name for path in file.parent.iterdir()] == [file.name]
    assert stat.S_IMODE(file.stat().st_mode) == 0o644


def test_statsd_gets_the_same_numbers_in_packets_that_fit(published: Settings) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        server.settimeout(60)
        address = Address(host="127.0.0.1", port=server.getsockname()[1])
        settings = published.model_copy(update={"metrics": MetricsSettings(statsd=address)})
        first = list_runs(open_lake(published))[0].run_id
        numbers = read(text_of(settings, first))
        expected = sum(len(samples) for name, samples in numbers.items() if name != "onceover_run_info")
        lines: list[str] = []
        while len(lines) < expected:
            packet = server.recv(65_536)
            assert len(packet) <= PACKET_BYTES
            lines += packet.decode().split("\n")
    accepted = int(numbers["onceover_batches"][only({"topic": "orders", "verdict": "accepted"})])
    assert f"onceover.batches.orders.accepted:{accepted}|g" in lines
    assert Counter(line.rpartition("|")[2] for line in lines) == {"g": expected}
