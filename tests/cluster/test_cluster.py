"""The sample's nights on the cluster: Airflow on Postgres, Spark's workers, buckets; equal to plain runs."""

from collections.abc import Iterator

import pytest
from rich.console import Console

from infra.embedded.__main__ import run_night
from spark_jobs.config.load import load_settings
from spark_jobs.config.settings import Settings
from spark_jobs.flow import Step
from spark_jobs.reporting.narrator import Narrator
from spark_jobs.run import run_night as run_plainly
from spark_jobs.sample.nights import write_sample
from spark_jobs.sample.story import NIGHTS
from spark_jobs.spark_session import Spark
from spark_jobs.storage.iceberg.catalog import open_catalog
from spark_jobs.storage.iceberg.published import table_names
from tests.cluster.rig import Cluster, running_cluster

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Both nights, run through the scheduler on the cluster."""
    with (
        running_cluster(tmp_path_factory.mktemp("cluster")) as cluster,
        pytest.MonkeyPatch.context() as patch,
    ):
        for name, value in cluster.environment.items():
            patch.setenv(name, value)
        for night in NIGHTS:
            run_night(cluster.api, night)
        yield cluster


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory, spark: Spark) -> Settings:
    """The same nights on this machine alone: files, SQLite, one process; no Airflow."""
    directory = tmp_path_factory.mktemp("plain")
    write_sample(directory)
    settings = load_settings(directory / "onceover.yaml")
    for night in NIGHTS:
        run_plainly(settings, night, until=Step.PUBLISH, spark=spark, narrator=Narrator(Console(quiet=True)))
    return settings


def tables(settings: Settings) -> dict[str, list[str]]:
    """Every row of every table, in an order of its own."""
    with open_catalog(settings) as catalog:
        return {
            name: sorted(map(repr, catalog.load_table(name).scan().to_arrow().to_pylist()))
            for name in table_names(catalog, settings)
        }


def test_every_table_holds_the_rows_of_the_plain_run(cluster: Cluster, plain: Settings) -> None:
    expected, found = tables(plain), tables(cluster.settings)
    assert found.keys() == expected.keys()
    for name, rows in expected.items():
        assert found[name] == rows, name
