"""The commands and names of the cluster: the compose file must have them, and the test rig starts them."""

import json

from infra.embedded.services import COMMANDS

MASTER_CLASS = "org.apache.spark.deploy.master.Master"
WORKER_CLASS = "org.apache.spark.deploy.worker.Worker"
VERSITYGW_VERSION = "v1.8.0"
VERSITYGW_PACKAGE = f"github.com/versity/versitygw/cmd/versitygw@{VERSITYGW_VERSION}"

AIRFLOW_COMMANDS = {
    **{name: ("airflow", *arguments) for name, arguments in COMMANDS.items()},
    "triggerer": ("airflow", "triggerer", "--skip-serve-logs"),
}
"""Airflow's services, by name; logs are read from the volume that they share."""
JOB_CHECKS = {
    name: ("airflow", "jobs", "check", "--job-type", job, "--local")
    for name, job in {
        "scheduler": "SchedulerJob",
        "dag-processor": "DagProcessorJob",
        "triggerer": "TriggererJob",
    }.items()
}
"""How those without a port are asked whether they are well."""
INIT_COMMANDS = {
    "airflow-init": ("python", "-m", "infra.cluster.init_airflow"),
    "s3-init": ("python", "-m", "infra.cluster.init_buckets"),
    "sample": ("python", "-m", "infra.cluster.init_sample"),
}
"""What runs once and ends: the database, pool and password; the buckets; on request, data to try."""
BUCKETS = ("raw", "lake")
"""The buckets of the sources and of the lake."""
AIRFLOW_DATABASE, CATALOG_DATABASE = "airflow", "catalog"
DATABASE_USER = "onceover"
COLLECTOR_PORT = 9100
"""The textfile directory of the node exporter."""
S3_ENDPOINT = "http://s3:7070"
"""As the containers see it; infra/cluster/onceover.yaml names it."""
PASSWORD_VARIABLE = "ONCEOVER_ADMIN_PASSWORD"  # noqa: S105 — a variable's name
CATALOG_VARIABLE = "PYICEBERG_CATALOG__ONCEOVER__URI"
SPARK_VARIABLE = "AIRFLOW_CONN_ONCEOVER_SPARK"


def master_command(*, host: str, port: int, web_port: int) -> tuple[str, ...]:
    """Hands out the workers' cores."""
    ports = ("--port", str(port), "--webui-port", str(web_port))
    return ("spark-class", MASTER_CLASS, "--host", host, *ports)


def worker_command(master: str, *, cores: int, memory: str, work_dir: str, web_port: int) -> tuple[str, ...]:
    """Runs executors for the master at `spark://…`."""
    size = ("--cores", str(cores), "--memory", memory)
    return ("spark-class", WORKER_CLASS, *size, "--work-dir", work_dir, "--webui-port", str(web_port), master)


def spark_connection(*, master: str, port: int, driver_host: str, bind_address: str, memory: str) -> str:
    """The Airflow connection that sends the work to the cluster; executors must reach the driver."""
    conf = {
        "spark.driver.host": driver_host,
        "spark.driver.bindAddress": bind_address,
        "spark.executor.memory": memory,
    }
    return json.dumps({"conn_type": "spark", "host": master, "port": port, "extra": {"conf": conf}})


def s3_command(*, address: str, directory: str) -> tuple[str, ...]:
    """An S3 server on `address` with a file per object below `directory`.

    Without its option --keep-alive: kept connections fail at the checksums that pyarrow sends after a
    body, and every 25th file that a catalog writes is refused.
    """
    return ("versitygw", "--quiet", "--port", address, "posix", directory)


def database_url(*, password: str, host: str, port: int, database: str) -> str:
    """Where SQLAlchemy finds a database of the cluster's Postgres."""
    return f"postgresql+psycopg2://{DATABASE_USER}:{password}@{host}:{port}/{database}"
