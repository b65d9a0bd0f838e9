"""Spark's own standalone cluster: a master and two workers of one core each, on loopback."""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from infra.cluster.service import Service, running
from infra.cluster.topology import master_command, worker_command
from infra.embedded.home import LOOPBACK, free_port
from spark_jobs.execution.classic import prepare_environment

WORKERS = 2
CORES, MEMORY = 1, "1g"


@contextmanager
def running_spark(directory: Path, environment: Mapping[str, str]) -> Iterator[int]:
    """The master's port; workers and their executors get `environment`, credentials included."""
    directory.mkdir()
    prepared = dict(environment)
    prepare_environment(prepared)
    port = free_port()
    master = master_command(host=LOOPBACK, port=port, web_port=free_port())
    services = [_service("master", master, port, directory, prepared)]
    for number in range(1, WORKERS + 1):
        web_port, name = free_port(), f"worker-{number}"
        worker = worker_command(
            f"spark://{LOOPBACK}:{port}",
            cores=CORES,
            memory=MEMORY,
            work_dir=str(directory / name),
            web_port=web_port,
        )
        services.append(_service(name, worker, web_port, directory, prepared))
    with ExitStack() as stack:
        for service in services:
            stack.enter_context(running(service))
        yield port


def _service(
    name: str, command: tuple[str, ...], port: int, directory: Path, environment: Mapping[str, str]
) -> Service:
    programs = Path(sys.executable).parent
    return Service(
        name=f"Spark {name}",
        command=(str(programs / command[0]), *command[1:]),
        environment={**environment, "PATH": f"{programs}{os.pathsep}{environment['PATH']}"},
        log=directory / f"{name}.log",
        port=port,
    )
