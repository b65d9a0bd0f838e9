"""Postgres, Spark, an S3 server and Airflow, as docker-compose.yml has them, started for one test run."""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from infra.cluster.airflow_home import ClusterHome, run_once, running_airflow
from infra.cluster.postgres import ComponentMissing, check_components, running_postgres
from infra.cluster.spark import running_spark
from infra.cluster.topology import AIRFLOW_DATABASE, CATALOG_DATABASE, CATALOG_VARIABLE, S3_ENDPOINT
from infra.embedded.__main__ import NIGHTLY
from infra.embedded.home import ROOT, free_port
from infra.embedded.rest import Api
from spark_jobs.config.load import load_settings
from spark_jobs.config.settings import Settings
from tests.s3_server import place_of_versitygw, running_s3_server, versitygw

CONFIG = ROOT / "infra" / "cluster" / "onceover.yaml"
BACKFILL = "onceover_backfill"
INCOMPLETE = "\naudit: {severities: {most_batches_are_accepted: warning}}\n"
"""While an object is missing, most batches that follow it are out of sequence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """All of it, running; `environment` is what its services share beyond the machine's own."""

    api: Api
    environment: dict[str, str]

    @property
    def settings(self) -> Settings:
        """With the catalog's address, which pyiceberg would have read from the environment when imported."""
        settings = load_settings(self.api.home.config)
        properties = {"uri": self.environment[CATALOG_VARIABLE]}
        catalog = settings.catalog.model_copy(update={"properties": properties})
        return settings.model_copy(update={"catalog": catalog})


def check_machine() -> None:
    """Ends all of it with a sentence where something is missing: nothing would be left to test."""
    try:
        check_components(s3_server=place_of_versitygw())
        versitygw()
    except (ComponentMissing, pytest.skip.Exception) as missing:
        pytest.exit(f"make test-cluster cannot run here:\n{missing}", returncode=1)


@contextmanager
def running_cluster(directory: Path) -> Iterator[Cluster]:
    """Starts everything below `directory`, in the order of the compose file's dependencies."""
    check_machine()
    with ExitStack() as stack:
        postgres = stack.enter_context(running_postgres(directory / "postgres.log"))
        s3 = stack.enter_context(running_s3_server(directory / "s3"))
        config = directory / "onceover.yaml"
        config.write_text(
            CONFIG.read_text()
            .replace(S3_ENDPOINT, s3.endpoint_url)
            .replace("/metrics/", f"{directory / 'metrics'}/")
            + INCOMPLETE
        )
        variables = {**s3.environment, CATALOG_VARIABLE: postgres.url(CATALOG_DATABASE)}
        for name in ("s3-init", "sample"):
            run_once(name, {**os.environ, **variables, "ONCEOVER_CONFIG": str(config)})
        spark_port = stack.enter_context(running_spark(directory / "spark", {**os.environ, **variables}))
        (directory / "airflow").mkdir()
        home = ClusterHome(
            directory / "airflow",
            free_port(),
            config,
            database=postgres.url(AIRFLOW_DATABASE),
            spark_port=spark_port,
            variables=variables,
        )
        api = stack.enter_context(running_airflow(home, NIGHTLY, BACKFILL))
        yield Cluster(api=api, environment=variables)
