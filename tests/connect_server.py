"""A Spark Connect server on loopback, as a process of its own."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from infra.cluster.service import Service, running
from infra.embedded.home import LOOPBACK, ROOT, free_port
from spark_jobs.execution.classic import prepare_environment

SERVER_CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"
CONF = {
    "spark.master": "local[2]",
    "spark.driver.memory": "1g",
    "spark.ui.enabled": "false",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.connect.grpc.binding.address": LOOPBACK,
}


@contextmanager
def running_connect_server(directory: Path) -> Iterator[str]:
    """Its address `sc://…`; its Python workers have this environment's packages."""
    port = free_port()
    conf = {**CONF, "spark.connect.grpc.binding.port": str(port)}
    options = [part for name, value in conf.items() for part in ("--conf", f"{name}={value}")]
    program = Path(sys.executable).with_name("spark-submit")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    prepare_environment(environment)
    service = Service(
        name="Spark Connect server",
        command=(str(program), *options, "--class", SERVER_CLASS, "spark-internal"),
        environment=environment,
        log=directory / "connect.log",
        port=port,
    )
    with running(service):
        yield f"sc://{LOOPBACK}:{port}"
