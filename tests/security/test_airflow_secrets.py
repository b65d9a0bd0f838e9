"""Runs through Airflow with real credentials, one of which fails: no log or file contains them afterwards.

The lake is on S3, the catalog in Postgres behind a password, Spark's connection carries a key of its own. A
live cluster asks for the password of a connection that is stored in Airflow's database.
What is searched: Airflow's database and home, task logs, lineage, the lake, and all the while scratch files
and the command lines of every process on the machine.
"""

import json
import os
import sqlite3
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import quote

import pytest
from confluent_kafka import Producer

from infra.cluster.postgres import ComponentMissing, Postgres, running_postgres
from infra.cluster.topology import CATALOG_DATABASE, CATALOG_VARIABLE, SPARK_VARIABLE
from infra.embedded.__main__ import execute_run
from infra.embedded.rest import Api
from spark_jobs.driver.client import stop_driver
from spark_jobs.driver.protocol import SourcesRequest
from spark_jobs.lake.s3_store import S3Store
from spark_jobs.lake.stores import open_store
from spark_jobs.sample.files import CONFIG, sample_files
from tests.broker.judge import Broker, JudgeUnavailableError, free_port, kafka_jars
from tests.broker.truth import create_topics
from tests.e2e.airflow_runs import NIGHTLY, RUN_DATES, running_airflow, until
from tests.faults.processes import called_with
from tests.s3_server import S3Server, running_s3_server

SPARK_SECRET, SPARK_PASSWORD = "marked-spark-secret", "marked-spark-password"
KAFKA_LOGIN = {"login": "ada", "password": "marked-kafka-password"}
MARKED = {
    "Spark's secret": SPARK_SECRET,
    "the connection's password": SPARK_PASSWORD,
    "the cluster's password": KAFKA_LOGIN["password"],
}
CONNECTIONS = {"AIRFLOW_CONN_KAFKA_LIVE": json.dumps(KAFKA_LOGIN)}
"""What tasks make of the connection that they find in Airflow's database."""
MASTER, CONF = "local[1]", {"spark.driver.memory": "1g", "spark.hadoop.fs.s3a.secret.key": SPARK_SECRET}
SECONDS_BETWEEN_LOOKS = 0.2
SETTINGS = """
lake: s3://{bucket}/lake
sources:
  - {{name: gateway, kind: capture, root: 's3://{bucket}/gateway', dates: dt=%Y-%m-%d, markers: true}}
{live}
s3: {{endpoint_url: '{endpoint}', addressing: path, max_attempts: 2}}
catalog: {{kind: sql}}
"""


LIVE = (
    "  - {{name: live, kind: cluster, bootstrap: '127.0.0.1:{port}', topics: {{include: [live]}}, "
    "security: {{protocol: SASL_PLAINTEXT, mechanism: PLAIN, connection: kafka_live}}}}"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """Where secrets were seen while the runs ran; `scratch` is for what these need only meanwhile."""

    secrets: Mapping[str, str]
    scratch: Path
    scratch_files: set[str] = field(default_factory=set)
    found: set[str] = field(default_factory=set)

    def look(self) -> None:
        shown = (name for name, secret in self.secrets.items() if called_with(secret))
        self.found.update(f"{name} on a command line" for name in shown)
        for path in (Path(place, name) for place, _, files in os.walk(self.scratch) for name in files):
            with suppress(OSError):  # gone meanwhile, or a socket
                data = path.read_bytes()
                self.scratch_files.add(path.name)
                self.found.update(f"{name} in {path}" for name in names_in(data, self.secrets))

    @contextmanager
    def looking(self) -> Iterator[None]:
        """Again and again, until the block ends."""
        over = threading.Event()

        def watch() -> None:
            while not over.wait(SECONDS_BETWEEN_LOOKS):
                self.look()

        with ThreadPoolExecutor(1) as thread:
            watching = thread.submit(watch)
            try:
                yield
            finally:
                over.set()
            watching.result()


@dataclass(frozen=True, slots=True, kw_only=True)
class Searched:
    """What the runs left, and what was seen while they ran."""

    secrets: Mapping[str, str]
    directory: Path
    database: Path
    reported: str
    seen: Seen
    fetched: bytes
    stored: bytes


def names_in(data: bytes, secrets: Mapping[str, str]) -> list[str]:
    """Which of the secrets are in there."""
    return [name for name, secret in secrets.items() if secret.encode() in data]


def _sample(server: S3Server) -> str:
    """A bucket with what the gateway sent to one topic."""
    bucket = server.new_bucket()
    store = S3Store(f"s3://{bucket}", server.settings)
    for path, data in sample_files():
        if path.startswith("gateway/") and "/orders" in path:
            store.put(path, data)
    return bucket


def _broker(stack: ExitStack, folder: Path) -> tuple[str, Path]:
    """A source that is a live broker with a password, and its data; without Kafka's jars no source."""
    try:
        kafka_jars()
    except JudgeUnavailableError:
        return "", folder
    broker, port = Broker(folder), free_port()
    listeners = {"PLAINTEXT": broker.port, "SASL": port, "CONTROLLER": broker.controller_port}
    addresses = [f"{name}://127.0.0.1:{number}" for name, number in listeners.items()]
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    broker.overrides |= {
        "listeners": ",".join(addresses),
        "advertised.listeners": ",".join(addresses[:2]),
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl.plain.sasl.jaas.config": (
            f"{module} required user_{KAFKA_LOGIN['login']}={KAFKA_LOGIN['password']};"
        ),
    }
    broker.format()
    stack.callback(broker.kill)
    broker.start()
    create_topics(broker.address, {"live": (1, "CreateTime")}, 2**20)
    producer = Producer({"bootstrap.servers": broker.address})
    producer.produce("live", b"one")
    assert producer.flush(60) == 0
    return LIVE.format(port=port), broker.data


def _environment(server: S3Server, postgres: Postgres, directory: Path, scratch: Path) -> dict[str, str]:
    lineage = {"type": "file", "log_file_path": str(directory / "lineage.jsonl"), "append": True}
    spark = {"conn_type": "spark", "host": MASTER, "password": SPARK_PASSWORD, "extra": {"conf": CONF}}
    return {
        **server.environment,
        CATALOG_VARIABLE: postgres.url(CATALOG_DATABASE),
        SPARK_VARIABLE: json.dumps(spark),
        "AIRFLOW__OPENLINEAGE__TRANSPORT": json.dumps(lineage),
        **dict.fromkeys(("TMPDIR", "SPARK_LOCAL_DIRS", "XDG_RUNTIME_DIR"), str(scratch)),
    }


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> Searched:
    """A run that succeeds, and one whose catalog is gone when it wants to publish."""
    directory = tmp_path_factory.mktemp("secrets")
    config = directory / CONFIG
    with ExitStack() as stack, ExitStack() as database, pytest.MonkeyPatch.context() as patch:
        # short, since the path of a socket has a limit; a driver that ends still tidies up there
        scratch = Path(stack.enter_context(TemporaryDirectory(ignore_cleanup_errors=True)))
        server = stack.enter_context(running_s3_server(directory / "s3"))
        postgres = _start(database, directory)
        for name, value in {**server.environment, "XDG_RUNTIME_DIR": str(scratch)}.items():
            patch.setenv(name, value)
        live, data = _broker(stack, tmp_path_factory.mktemp("kafka") / "broker")
        bucket = _sample(server)
        config.write_text(SETTINGS.format(bucket=bucket, endpoint=server.endpoint_url, live=live))
        secrets = {**server.environment, **MARKED, "the catalog's password": postgres.password}
        environment = _environment(server, postgres, directory, scratch)
        seen = Seen(secrets=secrets, scratch=scratch)
        with seen.looking(), running_airflow(directory, config, environment) as api:
            api.post("connections", {"connection_id": "kafka_live", "conn_type": "kafka", **KAFKA_LOGIN})
            execute_run(api, RUN_DATES[0])
            database.close()
            reported = _failed(api)
        given = CONNECTIONS if live else {}
        stop_driver(SourcesRequest(config=str(config), master=MASTER, conf=CONF, connections=given))
        home = api.home
        lake = open_store(f"s3://{bucket}/lake", server.settings)
        segments = [each.key for each in lake.list("sources/live") if each.key.endswith(".log")]
        fetched = b"".join(map(lake.read, segments))
        stored = b"".join(path.read_bytes() for path in data.glob("live-0/*.log"))
    return Searched(
        secrets=secrets,
        directory=directory,
        database=home.database_file,
        reported=reported,
        seen=seen,
        fetched=fetched,
        stored=stored,
    )


def _start(stack: ExitStack, directory: Path) -> Postgres:
    try:
        return stack.enter_context(running_postgres(directory / "postgres.log"))
    except ComponentMissing as missing:
        pytest.skip(str(missing))


def _failed(api: Api) -> str:
    """The second run up to its first try to publish; the log of that."""
    run_id = api.trigger(NIGHTLY, {"date": str(RUN_DATES[1])})
    awaited = ("publish", "up_for_retry")
    until(
        lambda: [task for task in api.tasks(NIGHTLY, run_id) if (task["task_id"], task["state"]) == awaited]
    )
    api.patch(f"dags/{NIGHTLY}/dagRuns/{quote(run_id)}", {"state": "failed"})
    [log] = (api.home.directory / "logs").glob(f"*/run_id={run_id}/task_id=publish/attempt=1.log")
    return log.read_text()


def test_a_connection_of_airflows_database_is_the_login_of_a_live_cluster(searched: Searched) -> None:
    if not searched.stored:
        pytest.skip("no broker without Kafka's jars")
    assert searched.fetched == searched.stored


def test_the_failed_run_says_what_is_wrong_without_a_secret(searched: Searched) -> None:
    assert "cannot connect to the sql catalog" in searched.reported
    assert names_in(searched.reported.encode(), searched.secrets) == []


def test_no_table_of_airflows_database_holds_one(searched: Searched) -> None:
    with closing(sqlite3.connect(searched.database)) as database:
        tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        rows = {name: database.execute(f'SELECT * FROM "{name}"').fetchall() for name in tables}
    assert {"xcom", "rendered_task_instance_fields", "log", "connection", "task_instance"} <= rows.keys()
    assert rows["xcom"]
    assert rows["rendered_task_instance_fields"]
    assert {
        name: found for name in tables if (found := names_in(repr(rows[name]).encode(), searched.secrets))
    } == {}


def test_no_file_that_airflow_the_runs_or_spark_have_left_holds_one(searched: Searched) -> None:
    """Task logs, service logs, the database as bytes, lineage, the lake with its pages, scratch files."""
    files = [path for path in searched.directory.rglob("*") if path.is_file()]
    expected = {"lineage.jsonl", searched.database.name, "index.html", "scheduler.log"}
    assert {path.name for path in files} >= expected
    found = {str(path): names_in(path.read_bytes(), searched.secrets) for path in files}
    assert {path: names for path, names in found.items() if names} == {}


def test_neither_command_lines_nor_scratch_files_showed_one_while_the_runs_ran(searched: Searched) -> None:
    assert searched.seen.scratch_files
    assert searched.seen.found == set()
