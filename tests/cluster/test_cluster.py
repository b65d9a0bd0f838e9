"""The sample's runs and a backfill on the cluster: Airflow on Postgres, Spark's workers, buckets.

They leave what the same runs leave on one machine, without Airflow, Spark or buckets.
"""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from infra.cluster.topology import AIRFLOW_COMMANDS, JOB_CHECKS
from infra.embedded.__main__ import NIGHTLY, execute_run
from infra.embedded.follow import follow
from spark_jobs.config.load import load_settings
from spark_jobs.config.settings import Settings
from spark_jobs.flow import Step
from spark_jobs.lake.iceberg.catalog import open_catalog
from spark_jobs.lake.iceberg.holdings import table_names
from spark_jobs.lake.ledger import RunStatus, list_runs
from spark_jobs.lake.stores import open_lake, open_source
from spark_jobs.operations.backfill import run_backfill
from spark_jobs.pipeline.report.metrics import METRICS_KEY
from spark_jobs.pipeline.stage.backfill_request import BackfillRequest
from spark_jobs.progress import RunProgress
from spark_jobs.run import execute_run as run_plainly
from spark_jobs.sample.files import CONFIG, sample_files, write_sample
from spark_jobs.sample.story import RUN_DATES
from tests.cluster.rig import BACKFILL, INCOMPLETE, Cluster, running_cluster
from tests.in_process import InProcess

pytestmark = pytest.mark.cluster

LATE, LATE_BYTES = max(
    file for file in sample_files() if file[0].startswith(f"gateway/dt={RUN_DATES[0]}/visits-0/")
)
"""An object of the first run that arrives when both runs are published."""
REASON = "an object came late"
Tables = dict[str, list[str]]
"""Every row of every table, in an order of its own."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Both runs through the scheduler, without the late object."""
    directory = tmp_path_factory.mktemp("cluster")
    with running_cluster(directory) as cluster, pytest.MonkeyPatch.context() as patch:
        for name, value in cluster.environment.items():
            patch.setenv(name, value)
        source, _, key = LATE.partition("/")
        open_source(cluster.settings, cluster.settings.source(source)).delete(key)
        for run_date in RUN_DATES:
            execute_run(cluster.api, run_date)
        yield cluster


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """The same in this process: files and SQLite."""
    directory = tmp_path_factory.mktemp("plain")
    write_sample(directory)
    (directory / LATE).unlink()
    config = directory / CONFIG
    config.write_text(config.read_text() + INCOMPLETE)
    settings = load_settings(config)
    for run_date in RUN_DATES:
        run_plainly(settings, run_date, until=Step.PUBLISH, spark=InProcess(), progress=quiet())
    return settings


@pytest.fixture(scope="module")
def run_dates(cluster: Cluster, plain: Settings) -> tuple[Tables, Tables]:
    """What is expected and what is found, before the backfill."""
    return tables(plain), tables(cluster.settings)


@pytest.fixture(scope="module")
def backfilled(cluster: Cluster, plain: Settings, run_dates: tuple[Tables, Tables]) -> tuple[Tables, Tables]:
    """The same after the late object has come, and a backfill has put it in."""
    source, _, key = LATE.partition("/")
    open_source(cluster.settings, cluster.settings.source(source)).put(key, LATE_BYTES)
    conf = {"from": str(RUN_DATES[0]), "reason": REASON, "dry_run": False}
    follow(cluster.api, BACKFILL, cluster.api.trigger(BACKFILL, conf))
    Path(plain.lake, "..", LATE).resolve().write_bytes(LATE_BYTES)
    request = BackfillRequest(first=RUN_DATES[0], last=RUN_DATES[0], reason=REASON)
    for _ in run_backfill(plain, request, spark=InProcess(), progress=quiet(), until=Step.PUBLISH):
        pass
    return tables(plain), tables(cluster.settings)


def quiet() -> RunProgress:
    return RunProgress(Console(quiet=True))


def tables(settings: Settings) -> Tables:
    with open_catalog(settings) as catalog:
        return {
            name: sorted(map(repr, catalog.load_table(name).scan().to_arrow().to_pylist()))
            for name in table_names(catalog, settings)
        }


def runs(settings: Settings) -> list[tuple[str, RunStatus]]:
    return [(line.run_id, line.status) for line in list_runs(open_lake(settings))]


def test_every_table_holds_the_rows_of_the_plain_runs(run_dates: tuple[Tables, Tables]) -> None:
    expected, found = run_dates
    assert found.keys() == expected.keys()
    assert [name for name in expected if found[name] != expected[name]] == []
    assert expected["topics.orders"]


def test_the_runs_have_the_names_of_the_plain_ones(
    cluster: Cluster, plain: Settings, run_dates: tuple[Tables, Tables]
) -> None:
    assert runs(cluster.settings) == runs(plain)


def test_the_work_was_done_by_both_workers_of_the_cluster(cluster: Cluster) -> None:
    directory = cluster.api.home.directory.parent / "spark"
    assert all([*(directory / worker).glob("app-*/*/stderr")] for worker in ("worker-1", "worker-2"))


def test_every_service_of_airflow_is_well_by_the_checks_of_the_compose_file(cluster: Cluster) -> None:
    health = cluster.api.get("monitor/health")
    assert {part["status"] for part in health.values()} == {"healthy"}
    for check in JOB_CHECKS.values():
        done = subprocess.run(
            [sys.executable, "-m", *check], env=cluster.api.home.environment, capture_output=True, check=False
        )
        assert done.returncode == 0, (check, done.stderr)
    assert JOB_CHECKS.keys() < AIRFLOW_COMMANDS.keys()


def test_the_collectors_file_is_that_of_the_lake(cluster: Cluster, run_dates: tuple[Tables, Tables]) -> None:
    textfile = cluster.settings.metrics.textfile
    assert textfile is not None
    assert Path(textfile).read_bytes() == open_lake(cluster.settings).read(METRICS_KEY)


def test_a_backfill_leaves_the_rows_of_a_plain_one(
    run_dates: tuple[Tables, Tables], backfilled: tuple[Tables, Tables]
) -> None:
    expected, found = backfilled
    assert [name for name in expected if found[name] != expected[name]] == []
    assert found["topics.visits"] != run_dates[1]["topics.visits"]


def test_a_backfill_replaces_the_runs_that_a_plain_one_replaces(
    cluster: Cluster, plain: Settings, backfilled: tuple[Tables, Tables]
) -> None:
    assert sorted(runs(cluster.settings)) == sorted(runs(plain))
    assert RunStatus.REPLACED in dict(runs(plain)).values()


def test_all_of_it_ran_as_one_dag_run_per_run_and_backfill(
    cluster: Cluster, backfilled: tuple[Tables, Tables]
) -> None:
    for dag_id, count in ((NIGHTLY, len(RUN_DATES)), (BACKFILL, 1)):
        states = [run["state"] for run in cluster.api.get(f"dags/{dag_id}/dagRuns")["dag_runs"]]
        assert states == ["success"] * count
