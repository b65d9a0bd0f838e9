"""Speculation on a standalone cluster: a second attempt gives the result, and a late one changes nothing."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from infra.cluster.service import Service, running
from infra.cluster.topology import master_command, worker_command
from infra.embedded.home import LOOPBACK, ROOT, free_port
from spark_jobs.execution.classic import prepare_environment
from spark_jobs.operations.bundle import write_bundle

DRIVER = """
import json, os, sys
from pathlib import Path
from spark_jobs.execution.shuffle import TaskRows
from spark_jobs.execution.spark import Spark
from tests.faults.delayed import ROWS, attempt, rows_late, rows_of
from tests.faults.late_index import late_attempts

master, archive, directory = sys.argv[1:]
speculation = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.minTaskRuntime": "100ms",
}
spark = Spark(
    master,
    {
        "spark.executor.memory": "512m",
        "spark.archives": f"{archive}#onceover",
        "spark.executorEnv.PYTHONPATH": f"./onceover:{os.getcwd()}",
        **speculation,
    },
)
slots = spark.parallelism
results = spark.run_tasks(attempt, [(number, directory) for number in range(4)])
rows = TaskRows(function=rows_late, tasks=[(number, directory) for number in range(4)], schema=ROWS)
groups = spark.shuffle([rows], key="number", function=rows_of).summaries
print(json.dumps([slots, results, groups, late_attempts(Path(directory), spark)]))
spark.stop()
"""


@contextmanager
def _cluster(directory: Path) -> Iterator[str]:
    """A master and two workers with addresses of their own: a second attempt runs on another host."""
    environment = dict(os.environ)
    prepare_environment(environment)
    port = free_port()
    master = master_command(host=LOOPBACK, port=port, web_port=free_port())
    with ExitStack() as stack:
        stack.enter_context(running(_service("master", master, directory, environment, port)))
        for number in (2, 3):
            address = f"127.0.0.{number}"
            worker = worker_command(
                f"spark://{LOOPBACK}:{port}",
                cores=1,
                memory="512m",
                work_dir=str(directory / address),
                web_port=free_port(),
            )
            own = {**environment, "SPARK_LOCAL_IP": address, "SPARK_LOCAL_HOSTNAME": address}
            stack.enter_context(running(_service(address, worker, directory, own)))
        yield f"spark://{LOOPBACK}:{port}"


def _service(
    name: str, command: tuple[str, ...], directory: Path, environment: dict[str, str], port: int | None = None
) -> Service:
    program = Path(sys.executable).with_name(command[0])
    log = directory / f"{name}.log"
    return Service(
        name=name, command=(str(program), *command[1:]), environment=environment, log=log, port=port
    )


def test_a_second_attempt_gives_the_result_and_a_late_one_changes_nothing(tmp_path: Path) -> None:
    archive = tmp_path / "onceover.zip"
    write_bundle(archive)
    with _cluster(tmp_path) as master:
        command = [sys.executable, "-c", DRIVER, master, str(archive), str(tmp_path)]
        said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stderr
    slots, results, groups, late = json.loads(said.stdout)
    assert slots == 2
    assert [number for number, _, _ in results] == [0, 1, 2, 3]
    assert [is_first for _, is_first, _ in results] == [False, True, True, True]
    assert all("/onceover/spark_jobs/" in file for _, _, file in results)
    assert (tmp_path / "0.result").read_text() == "0"
    assert groups == [[number, 1] for number in range(4)]
    assert late["written after its round"]
    assert late["changed"] == []
    assert late["changed with other ranges"] == []
