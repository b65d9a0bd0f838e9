"""Credentials reach the services that they are for, and nothing else: no lake, no log, no message."""

import os
import stat
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from infra.embedded.home import Home
from infra.embedded.services import prepare
from spark_jobs.config.load import parse_settings
from spark_jobs.execution.classic import shown
from spark_jobs.lake.errors import PublishFailed
from spark_jobs.lake.iceberg.catalog import open_catalog
from spark_jobs.lake.s3_store import S3Store
from spark_jobs.sample.files import CONFIG, sample_files
from tests.s3_server import S3Server

CATALOG_PASSWORD = "marked-catalog-password"
RUN = "2026-03-01"
SETTINGS = """
lake: lake
sources:
  - name: gateway
    kind: capture
    root: s3://{bucket}/gateway
    dates: dt=%Y-%m-%d
    topics: {{include: [orders]}}
s3: {{endpoint_url: '{endpoint}', addressing: path, max_attempts: 2}}
spark: {{master: 'local[1]', driver_memory: 1g}}
{more}
"""


def _run(directory: Path, server: S3Server, *, until: str, more: str = "", **environment: str) -> str:
    """Everything that a run says, whether it succeeds or not."""
    bucket = server.new_bucket()
    store = S3Store(f"s3://{bucket}", server.settings)
    for path, data in sample_files():
        if path.startswith(f"gateway/dt={RUN}/orders"):
            store.put(path, data)
    config = directory / CONFIG
    config.write_text(SETTINGS.format(bucket=bucket, endpoint=server.endpoint_url, more=more))
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "spark_jobs",
            "run",
            "--config",
            str(config),
            "--date",
            RUN,
            "--until",
            until,
        ],
        env={**os.environ, "PYICEBERG_CATALOG__ONCEOVER__PASSWORD": CATALOG_PASSWORD, **environment},
        capture_output=True,
        check=False,
    )
    return f"{done.returncode}\n{done.stdout.decode()}{done.stderr.decode()}"


def _found_in(directory: Path, secrets: list[str]) -> list[str]:
    """Files below `directory` that hold one of `secrets`."""
    files = [path for path in directory.rglob("*") if path.is_file()]
    return [str(path) for path in files if any(secret.encode() in path.read_bytes() for secret in secrets)]


def test_a_catalog_that_does_not_answer_is_named_without_its_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = f"postgresql+psycopg2://user:{CATALOG_PASSWORD}@127.0.0.1:1/catalog"
    monkeypatch.setenv("PYICEBERG_CATALOG__ONCEOVER__URI", address)
    text = "lake: lake\ncatalog: {kind: sql}\nsources: [{name: a, kind: capture, root: b}]\n"
    settings = parse_settings(text, name=CONFIG, base=tmp_path)
    with (
        pytest.raises(PublishFailed, match="cannot connect to the sql catalog") as failed,
        open_catalog(settings),
    ):
        pytest.fail("there is no such catalog")
    assert CATALOG_PASSWORD not in str(failed.value)


def test_the_home_of_the_embedded_airflow_is_its_owners_alone(tmp_path: Path) -> None:
    home = Home(tmp_path / "home", 8080, tmp_path / CONFIG)
    home.directory.mkdir()
    home.database_file.with_suffix(f".{version('apache-airflow')}").touch()  # as if the database were there
    prepare(home)
    assert home.password
    assert stat.S_IMODE(home.directory.stat().st_mode) == 0o700
    assert stat.S_IMODE(home.passwords.stat().st_mode) == 0o600


def test_what_the_jvm_is_called_with_leaves_out_what_looks_secret() -> None:
    """Anybody on the machine can read command lines; the rest reaches the JVM through its own connection."""
    plain = {"spark.driver.memory": "1g", "spark.jars": "s3a://bucket/a.jar"}
    secret = {
        "spark.hadoop.fs.s3a.secret.key": "a",
        "spark.authenticate.secret": "b",
        "spark.ssl.keyStorePassword": "c",
        "spark.kubernetes.authenticate.oauthToken": "d",
        "spark.executorEnv.DATABASE": "postgresql://user:e@host/name",
    }
    assert shown({**plain, **secret}) == plain


@pytest.fixture
def secrets(s3_server: S3Server) -> list[str]:
    return [*s3_server.environment.values(), CATALOG_PASSWORD]


def test_a_run_leaves_no_secret_in_its_lake_nor_in_what_it_says(
    tmp_path: Path, s3_server: S3Server, secrets: list[str]
) -> None:
    said = _run(tmp_path, s3_server, until="index")
    assert said.startswith("0\n"), said
    assert not [secret for secret in secrets if secret in said]
    assert _found_in(tmp_path, secrets) == []


def test_a_run_that_is_denied_does_not_show_what_it_tried(
    tmp_path: Path, s3_server: S3Server, secrets: list[str]
) -> None:
    said = _run(tmp_path, s3_server, until="stage", AWS_SECRET_ACCESS_KEY="marked-wrong-key")
    assert "check the credentials" in said
    assert not [secret for secret in (*secrets, "marked-wrong-key") if secret in said]
    assert _found_in(tmp_path, [*secrets, "marked-wrong-key"]) == []
