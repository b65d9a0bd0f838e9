"""`onceover transactions` as an operator calls it."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from spark_jobs.cli import app
from spark_jobs.kafka.coordinator.transaction_metadata import TransactionResult
from tests.kafka.txn_cluster import PARTITIONS, Cluster
from tests.pipeline.resolve.run_lake import RunLake
from tests.pipeline.resolve.test_resolve_cases import MINUTES, cluster_at, pass_time, resolve, send, started

FIRST = PARTITIONS[0]


@pytest.fixture
def lake(tmp_path: Path) -> RunLake:
    lake = RunLake(tmp_path)
    (tmp_path / "onceover.yaml").write_text(lake.config)
    return lake


def call(lake: RunLake, *arguments: str) -> Result:
    return CliRunner().invoke(
        app,
        ["transactions", "--config", str(lake.directory / "onceover.yaml"), *arguments],
        env={"COLUMNS": "300"},
    )


def troubled() -> Cluster:
    """One committed, one open, and one that its coordinator has forgotten; long before the copy."""
    cluster = cluster_at(0)
    cluster.now -= 30 * MINUTES
    quick, slow, lost = (started(cluster, name) for name in ("quick", "slow\x1b[31m[red]", "lost"))
    send(cluster, quick, FIRST)
    cluster.end(quick, TransactionResult.COMMIT)
    send(cluster, slow, FIRST)
    send(cluster, lost, FIRST)
    send(cluster, quick, FIRST)
    cluster.end(quick, TransactionResult.COMMIT)
    pass_time(cluster, quick, 20 * MINUTES)
    cluster.entries = [entry for entry in cluster.entries if entry.transactional_id != "lost"]
    return cluster


def test_what_is_undecided_is_shown_with_age_burden_and_remedy(lake: RunLake) -> None:
    resolve(lake, troubled())

    result = call(lake)

    assert result.exit_code == 0
    assert "quick" not in result.stdout
    (slow,) = (line for line in result.stdout.splitlines() if "ongoing" in line)
    assert slow.split()[:2] == ["slow\\x1b[31m[red]", "1000"]
    assert "4 offsets" in slow
    assert "t-0 from 2" in slow
    assert "the coordinator's log has it as Ongoing" in slow
    (hanging,) = (line for line in result.stdout.splitlines() if " hanging " in line)
    assert "0:20:00" in hanging
    (advice,) = (line for line in result.stdout.splitlines() if "abort --topic t" in line)
    assert advice.startswith(
        "check first: `kafka-transactions.sh --bootstrap-server localhost:9092 describe-producers --topic t"
    )
    assert advice.endswith("discards its records for good, even if a live producer commits them afterwards")


def test_a_coordinators_copy_that_is_older_than_the_data_is_shown_with_the_skew(lake: RunLake) -> None:
    cluster = cluster_at(0)
    live = started(cluster, "live")
    older = list(cluster.entries)
    cluster.now += 4000
    send(cluster, live, FIRST)
    lake.copy_logs(cluster.logs, older)
    lake.run(0)

    result = call(lake)

    (line,) = (line for line in result.stdout.splitlines() if "live" in line)
    assert "coordinator 0:00:04 older" in line
    assert "undecidable: the coordinator's copy is older than the data" in line
    assert "kafka-transactions.sh" not in result.stdout


def test_all_of_them_are_shown_on_request(lake: RunLake) -> None:
    resolve(lake, troubled())
    assert "quick" in call(lake, "--all").stdout


def test_as_json_each_is_an_object_on_its_line(lake: RunLake) -> None:
    found = resolve(lake, troubled())

    rows = [json.loads(line) for line in call(lake, "--json", "--all").stdout.splitlines()]

    assert [{**row, "run_id": None} for row in rows] == [
        {**row, "run_id": None} for row in found.transactions
    ]
    assert {row["run_id"] for row in rows} == {found.run_id}


def test_a_lake_where_all_is_decided_says_so(lake: RunLake) -> None:
    cluster = cluster_at(0)
    producer = started(cluster)
    send(cluster, producer, FIRST)
    cluster.end(producer, TransactionResult.COMMIT)
    resolve(lake, cluster)
    assert call(lake).stdout.endswith("all transactions are decided\n")


def test_a_lake_without_a_resolved_run_says_so(lake: RunLake) -> None:
    result = call(lake)
    assert result.exit_code == 1
    assert result.stderr == "onceover: no run has been resolved yet\n"


def test_the_newest_run_speaks(lake: RunLake) -> None:
    cluster = cluster_at(0)
    producer = started(cluster)
    send(cluster, producer, FIRST)
    resolve(lake, cluster)
    cluster.end(producer, TransactionResult.ABORT)
    resolve(lake, cluster, 1)
    assert call(lake).stdout.endswith("all transactions are decided\n")
