"""An Airflow like the embedded one, but on Postgres, with a triggerer, and with the cluster's Spark."""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from infra.cluster.service import Service, ServiceFailed, running
from infra.cluster.topology import (
    AIRFLOW_COMMANDS,
    INIT_COMMANDS,
    PASSWORD_VARIABLE,
    SPARK_VARIABLE,
    spark_connection,
)
from infra.embedded.home import LOOPBACK, ROOT, Home
from infra.embedded.rest import Api
from infra.embedded.services import start, stop
from spark_jobs.driver.client import stop_driver
from spark_jobs.driver.protocol import StepRequest
from spark_jobs.flow import Step
from spark_jobs.sample.story import RUN_DATES

TAIL_LINES = 20
EXECUTOR_MEMORY = "512m"


@dataclass(frozen=True)
class ClusterHome(Home):
    """`database` is Airflow's own, `spark_port` the master's; `variables` are what tasks find beside."""

    database: str = ""
    spark_port: int = 0
    variables: Mapping[str, str] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        own = {
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": self.database,
            PASSWORD_VARIABLE: self.password,
            SPARK_VARIABLE: self._spark,
        }
        return {**super().environment, **own, **self.variables}

    @property
    def _spark(self) -> str:
        return spark_connection(
            master=f"spark://{LOOPBACK}",
            port=self.spark_port,
            driver_host=LOOPBACK,
            bind_address=LOOPBACK,
            memory=EXECUTOR_MEMORY,
        )

    def any_request(self) -> StepRequest:
        """What names the driver that this Airflow's tasks start."""
        return StepRequest(
            config=str(self.config),
            day=RUN_DATES[0],
            step=Step.STAGE,
            more_steps_follow=True,
            master=f"spark://{LOOPBACK}:{self.spark_port}",
            conf=json.loads(self._spark)["extra"]["conf"],
        )


@contextmanager
def running_airflow(home: ClusterHome, *dag_ids: str) -> Iterator[Api]:
    """All four services, once they are healthy and know the DAGs; they and the tasks' driver end with it."""
    run_once("airflow-init", home.environment)
    triggerer = Service(
        name="triggerer",
        command=(sys.executable, "-m", *AIRFLOW_COMMANDS["triggerer"]),
        environment=home.environment,
        log=home.directory / "triggerer.log",
    )
    try:
        start(home)
        with running(triggerer):
            api = Api(home)
            api.wait_until_ready(*dag_ids)
            yield api
    finally:
        stop(home)
        stop_driver(home.any_request())


def run_once(name: str, environment: Mapping[str, str]) -> None:
    """One of the commands that prepare something and end; says what it printed if it failed."""
    _, *arguments = INIT_COMMANDS[name]
    done = subprocess.run(  # noqa: S603 — our own program
        [sys.executable, *arguments],
        env=environment,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        raise ServiceFailed(f"{name} failed:\n" + "\n".join(done.stdout.strip().splitlines()[-TAIL_LINES:]))
