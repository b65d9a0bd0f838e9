"""The compose file: what the specification allows, what the test rig starts, nothing open and no secret."""

import fcntl
import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra.cluster.env_file import filled
from infra.cluster.postgres import ComponentMissing, check_components
from infra.cluster.topology import (
    AIRFLOW_COMMANDS,
    AIRFLOW_DATABASE,
    BUCKETS,
    CATALOG_DATABASE,
    CATALOG_VARIABLE,
    COLLECTOR_PORT,
    DATABASE_USER,
    INIT_COMMANDS,
    JOB_CHECKS,
    PASSWORD_VARIABLE,
    S3_ENDPOINT,
    SPARK_VARIABLE,
    VERSITYGW_PACKAGE,
    database_url,
    master_command,
    s3_command,
    spark_connection,
    worker_command,
)
from infra.embedded.home import Home
from spark_jobs.config.load import load_settings
from spark_jobs.lake.iceberg.catalog import WAREHOUSE
from tests.s3_server import place_of_versitygw

ROOT = Path(__file__).parents[2]
COMPOSE = ROOT / "docker-compose.yml"
CONFIG = ROOT / "infra" / "cluster" / "onceover.yaml"
VALIDATOR = "github.com/compose-spec/compose-go/v2/cmd@v2.16.2"
"""The specification's own; its licence is Apache 2.0."""
VARIABLE = re.compile(r"\$\{(\w+)(?::([-?])([^}]*))?\}")
ONE_SHOT = {*INIT_COMMANDS, "embedded"}
MADE_UP: dict[str, str] = dict(
    re.findall(r"^(\w+)=(.*)$", filled((ROOT / ".env.example").read_text()), re.MULTILINE)
)
"""What `.env` would hold."""


def interpolated(text: str) -> str:
    return VARIABLE.sub(lambda found: MADE_UP.get(found[1], found[3] or ""), text)


@pytest.fixture(scope="module")
def services() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = yaml.safe_load(interpolated(COMPOSE.read_text()))["services"]
    return found


def command(service: dict[str, Any]) -> tuple[str, ...]:
    return tuple(service["command"])


def test_the_specifications_own_validator_accepts_it(tmp_path: Path) -> None:
    file = tmp_path / "docker-compose.yml"
    file.write_text(interpolated(COMPOSE.read_text()))
    done = subprocess.run(
        [validator(), "--format", "json", file], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert "postgres" in json.loads(done.stdout)["services"]


def test_the_validator_refuses_what_is_wrong(tmp_path: Path) -> None:
    file = tmp_path / "docker-compose.yml"
    file.write_text(interpolated(COMPOSE.read_text()).replace("restart:", "restarts:"))
    done = subprocess.run([validator(), file], capture_output=True, text=True, check=False)
    assert "restarts" in done.stderr + done.stdout


def validator() -> Path:
    """Built once with Go into the user's cache, as the S3 server is."""
    binary = place_of_versitygw().with_name(f"compose-{VALIDATOR.rpartition('@')[2]}")
    if not binary.exists() and shutil.which("go") is None:
        pytest.skip("the specification's validator needs Go; the other tests here still hold")
    binary.parent.mkdir(parents=True, exist_ok=True)
    with binary.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not binary.exists():
            build(binary)
    return binary


def build(binary: Path) -> None:
    place = binary.with_suffix(".build")
    environment = {**os.environ, "GOBIN": str(place), "CGO_ENABLED": "0"}
    done = subprocess.run(
        ["go", "install", VALIDATOR], env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        pytest.skip(f"the specification's validator could not be built: {done.stderr.strip()[-300:]}")
    (place / "cmd").rename(binary)
    place.rmdir()


def test_airflows_services_run_the_commands_of_the_rig(services: dict[str, dict[str, Any]]) -> None:
    assert {name: command(services[name]) for name in AIRFLOW_COMMANDS} == AIRFLOW_COMMANDS
    assert {name: command(services[name]) for name in INIT_COMMANDS} == INIT_COMMANDS


def test_spark_and_the_s3_server_run_the_commands_of_the_rig(services: dict[str, dict[str, Any]]) -> None:
    assert command(services["spark-master"]) == master_command(host="spark-master", port=7077, web_port=8080)
    assert command(services["spark-worker"]) == worker_command(
        "spark://spark-master:7077", cores=2, memory="4g", work_dir="/spark", web_port=8081
    )
    assert services["spark-worker"]["deploy"]["replicas"] == 2
    assert command(services["s3"]) == s3_command(address=":7070", directory="/buckets")


def test_airflow_has_every_setting_of_the_embedded_one(
    services: dict[str, dict[str, Any]], tmp_path: Path
) -> None:
    embedded = Home(tmp_path, 8080, CONFIG).environment
    elsewhere = {"HOME", "FOLDER", "CONN", "HOST", "URL", "FILE", "KEY", "SECRET"}
    names = {name for name in embedded if name.startswith(("AIRFLOW", "ONCEOVER"))}
    for service in AIRFLOW_COMMANDS:
        environment = services[service]["environment"]
        assert names <= environment.keys()
        same = {name for name in names if not elsewhere & set(name.split("_"))} - {"ONCEOVER_CONFIG"}
        assert {name: environment[name] for name in same} == {name: embedded[name] for name in same}


def in_postgres(database: str) -> str:
    password = MADE_UP["POSTGRES_PASSWORD"]
    return database_url(password=password, host="postgres", port=5432, database=database)


def test_tasks_find_spark_catalog_and_lake(services: dict[str, dict[str, Any]]) -> None:
    environment = services["scheduler"]["environment"]
    assert environment["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"] == in_postgres(AIRFLOW_DATABASE)
    assert environment[CATALOG_VARIABLE] == in_postgres(CATALOG_DATABASE)
    assert json.loads(environment[SPARK_VARIABLE]) == json.loads(
        spark_connection(
            master="spark://spark-master",
            port=7077,
            driver_host="scheduler",
            bind_address="0.0.0.0",
            memory="1g",
        )
    )
    assert environment["AWS_SECRET_ACCESS_KEY"] == services["s3"]["environment"]["ROOT_SECRET_KEY"]
    assert services["spark-worker"]["environment"].items() <= environment.items()


def test_postgres_makes_the_databases_that_the_rig_makes(services: dict[str, dict[str, Any]]) -> None:
    environment = services["postgres"]["environment"]
    assert (environment["POSTGRES_USER"], environment["POSTGRES_DB"]) == (DATABASE_USER, AIRFLOW_DATABASE)
    scripts = [each.split(":")[0] for each in services["postgres"]["volumes"] if "initdb.d" in each]
    [script] = scripts
    assert f"CREATE DATABASE {CATALOG_DATABASE};" in (ROOT / script).read_text()


def test_the_configuration_names_the_buckets_that_are_made_and_the_server_that_runs() -> None:
    settings = load_settings(CONFIG)
    roots = [settings.lake, *(source.root for source in settings.sources)]
    assert {root.removeprefix("s3://").partition("/")[0] for root in roots} == set(BUCKETS)
    assert settings.s3.endpoint_url == S3_ENDPOINT
    assert settings.metrics.textfile == "/metrics/onceover.prom"


def test_the_rest_catalog_keeps_its_tables_where_the_lake_is(services: dict[str, dict[str, Any]]) -> None:
    settings, environment = load_settings(CONFIG), services["iceberg-rest"]["environment"]
    assert environment["CATALOG_WAREHOUSE"] == f"{settings.lake}/{WAREHOUSE}"
    assert environment["CATALOG_S3_ENDPOINT"] == settings.s3.endpoint_url
    assert environment["AWS_REGION"] == settings.s3.region


def test_what_is_published_is_bound_to_this_machine(services: dict[str, dict[str, Any]]) -> None:
    published = {name: port for name, each in services.items() for port in each.get("ports", [])}
    assert set(published) == {"api-server", "s3", "prometheus", "grafana"}
    assert all(port.startswith("127.0.0.1:") for port in published.values())


def test_every_service_that_stays_says_whether_it_is_well(services: dict[str, dict[str, Any]]) -> None:
    assert {name for name, each in services.items() if "healthcheck" not in each} == ONE_SHOT
    for name, check in JOB_CHECKS.items():
        assert tuple(services[name]["healthcheck"]["test"]) == ("CMD", *check)
    assert {name for name, each in services.items() if each.get("restart") != "unless-stopped"} == ONE_SHOT


def test_services_that_others_depend_on_exist_and_can_reach_the_condition(
    services: dict[str, dict[str, Any]],
) -> None:
    for each in services.values():
        for name, wanted in each.get("depends_on", {}).items():
            ends = name in ONE_SHOT
            assert (wanted["condition"] == "service_completed_successfully") == ends
            assert set(services[name].get("profiles", [])) <= set(each.get("profiles", []))


def test_every_image_has_a_version_and_ours_are_built_here(services: dict[str, dict[str, Any]]) -> None:
    for each in services.values():
        assert re.fullmatch(r"[a-z0-9/-]+:v?\d+\.\d+[a-z0-9.-]*", each["image"])
        if each["image"].startswith("onceover"):
            context = ROOT / each["build"]["context"]
            assert (context / each["build"]["dockerfile"]).is_file()


def test_our_images_run_without_privileges_and_build_what_the_rig_builds() -> None:
    for name in ("onceover", "s3"):
        lines = (ROOT / "infra" / "images" / f"{name}.Dockerfile").read_text().splitlines()
        users = [line for line in lines if line.startswith("USER ")]
        assert users[-1:] != []
        assert "root" not in users[-1]
        assert all(re.search(r":\d+\.\d+", line) for line in lines if line.startswith("FROM "))
    assert VERSITYGW_PACKAGE in (ROOT / "infra" / "images" / "s3.Dockerfile").read_text()


def test_no_secret_and_no_environment_of_this_machine_gets_into_the_image() -> None:
    ignored = (ROOT / "infra" / "images" / "onceover.Dockerfile.dockerignore").read_text().splitlines()
    assert {".env", ".git", ".venv", ".cache"} <= set(ignored)
    assert ".env" in (ROOT / ".gitignore").read_text().splitlines()


def test_what_is_mounted_from_here_exists_and_volumes_are_declared(
    services: dict[str, dict[str, Any]],
) -> None:
    declared = set(yaml.safe_load(COMPOSE.read_text())["volumes"])
    sources = {mount.split(":")[0] for each in services.values() for mount in each.get("volumes", [])}
    assert {source for source in sources if not source.startswith(".")} == declared
    assert all((ROOT / source).exists() for source in sources if source.startswith("."))


def test_no_secret_is_in_the_file_and_none_has_a_default() -> None:
    uses = {name: (kind, default) for name, kind, default in VARIABLE.findall(COMPOSE.read_text())}
    assert uses.keys() == MADE_UP.keys()
    secret = {name for name in uses if re.search("PASSWORD|KEY|SECRET", name)}
    assert {uses[name] for name in secret} == {("?", "see .env.example")}
    for name in MADE_UP.keys() - secret:
        assert uses[name] == ("-", MADE_UP[name])
    secretive = re.compile(r"(PASSWORD|SECRET|_KEY)[A-Z_]*: (?!\$\{)(?!/airflow/passwords.json)")
    assert not secretive.findall(COMPOSE.read_text())


def test_the_example_holds_placeholders_that_become_secrets_of_their_own() -> None:
    example = (ROOT / ".env.example").read_text()
    once, again = filled(example), filled(example)
    made_up = re.findall(r"=(\S{40,})", once)
    assert len(made_up) == len(set(made_up)) == example.count("=change-me")
    assert not set(made_up) & set(re.findall(r"=(\S{40,})", again))
    assert "change-me" not in once


def test_the_collector_shows_the_file_that_tasks_write(services: dict[str, dict[str, Any]]) -> None:
    assert "--collector.textfile.directory=/metrics" in services["node-exporter"]["command"]
    assert "metrics:/metrics" in services["scheduler"]["volumes"]
    assert f":{COLLECTOR_PORT}/" in services["node-exporter"]["healthcheck"]["test"][-1]


def test_the_admins_password_reaches_the_one_who_writes_it_down(services: dict[str, dict[str, Any]]) -> None:
    knowing = {name for name, each in services.items() if PASSWORD_VARIABLE in each.get("environment", {})}
    assert knowing == {"airflow-init"}


def test_a_missing_component_is_named_with_its_package(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("infra.cluster.postgres.DEBIAN_POSTGRES", tmp_path)
    with pytest.raises(ComponentMissing) as missing:
        check_components(s3_server=tmp_path / "versitygw")
    assert "apt-get install postgresql" in str(missing.value)
    assert "install Go" in str(missing.value)
