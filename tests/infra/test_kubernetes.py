"""The Kubernetes manifest: its parts find each other, no right is too much, its configuration loads."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from spark_jobs.config.load import load_settings, parse_settings
from spark_jobs.config.settings import Settings

ROOT = Path(__file__).parents[2]
MANIFEST = ROOT / "infra" / "kubernetes" / "onceover.yaml"
ENTRYPOINT = ROOT / "infra" / "images" / "entrypoint.sh"
REPORTED = {
    "SPARK_EXECUTOR_MEMORY": "2048m",
    "SPARK_DRIVER_URL": "spark://driver",
    "SPARK_EXECUTOR_ID": "1",
    "SPARK_EXECUTOR_CORES": "2",
    "SPARK_APPLICATION_ID": "app",
    "SPARK_EXECUTOR_POD_IP": "10.0.0.7",
    "SPARK_RESOURCE_PROFILE_ID": "0",
    "SPARK_EXECUTOR_POD_NAME": "onceover-exec-1",
    "SPARK_JAVA_OPT_0": "-Dfirst=1",
    "SPARK_JAVA_OPT_1": "-Dsecond=two words",
}
"""What Spark passes to the container of an executor."""

Object = dict[str, Any]


@pytest.fixture(scope="module")
def objects() -> dict[str, Object]:
    found = {each["kind"]: each for each in yaml.safe_load_all(MANIFEST.read_text())}
    assert len(found) == MANIFEST.read_text().count("\nkind: ")
    return found


@pytest.fixture(scope="module")
def settings(objects: dict[str, Object]) -> Settings:
    return parse_settings(objects["ConfigMap"]["data"]["onceover.yaml"], name="ConfigMap", base=ROOT)


@pytest.fixture(scope="module")
def pod(objects: dict[str, Object]) -> Object:
    found: Object = objects["CronJob"]["spec"]["jobTemplate"]["spec"]["template"]
    return found


def test_everything_is_in_one_namespace(objects: dict[str, Object], settings: Settings) -> None:
    name = objects["Namespace"]["metadata"]["name"]
    assert {each["metadata"].get("namespace", name) for each in objects.values()} == {name}
    assert settings.spark.conf["spark.kubernetes.namespace"] == name


def test_driver_and_executors_run_as_the_service_account_that_has_the_rights(
    objects: dict[str, Object], settings: Settings, pod: Object
) -> None:
    name = objects["ServiceAccount"]["metadata"]["name"]
    [subject] = objects["RoleBinding"]["subjects"]
    assert (subject["kind"], subject["name"]) == ("ServiceAccount", name)
    assert objects["RoleBinding"]["roleRef"]["name"] == objects["Role"]["metadata"]["name"]
    assert pod["spec"]["serviceAccountName"] == name
    assert settings.spark.conf["spark.kubernetes.authenticate.executor.serviceAccountName"] == name


def test_no_right_is_given_by_a_wildcard_nor_on_secrets(objects: dict[str, Object]) -> None:
    for rule in objects["Role"]["rules"]:
        assert "*" not in (*rule["verbs"], *rule["resources"])
        assert "secrets" not in rule["resources"]


def test_executors_find_the_driver_behind_its_service(
    objects: dict[str, Object], settings: Settings, pod: Object
) -> None:
    service, conf = objects["Service"], settings.spark.conf
    place = service["metadata"]
    assert conf["spark.driver.host"] == f"{place['name']}.{place['namespace']}.svc"
    assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
    ports = {port["port"] for port in service["spec"]["ports"]}
    assert ports == {int(conf["spark.driver.port"]), int(conf["spark.driver.blockManager.port"])}
    [driver] = pod["spec"]["containers"]
    assert {port["containerPort"] for port in driver["ports"]} == ports


def test_the_lake_is_that_of_the_example_for_aws(settings: Settings) -> None:
    example = load_settings(ROOT / "infra" / "example" / "aws.yaml")
    assert settings.model_copy(update={"spark": example.spark}) == example
    assert settings.spark.master.startswith("k8s://https://")


def test_the_configuration_is_mounted_where_the_command_looks(
    objects: dict[str, Object], pod: Object
) -> None:
    [driver] = pod["spec"]["containers"]
    [mount], [volume] = driver["volumeMounts"], pod["spec"]["volumes"]
    assert mount["name"] == volume["name"]
    assert volume["configMap"]["name"] == objects["ConfigMap"]["metadata"]["name"]
    [file] = objects["ConfigMap"]["data"]
    assert f"onceover run --config {mount['mountPath']}/{file} --date " in driver["args"][-1]


def test_driver_and_executors_run_the_image_of_the_compose_file_without_privileges(
    settings: Settings, pod: Object
) -> None:
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    [driver] = pod["spec"]["containers"]
    image = compose["x-image"]["image"]
    assert {driver["image"], settings.spark.conf["spark.kubernetes.container.image"]} == {image}
    assert pod["spec"]["securityContext"]["runAsNonRoot"] is True
    assert driver["securityContext"]["allowPrivilegeEscalation"] is False
    assert driver["resources"]["limits"]["memory"]


def test_one_run_at_a_time(objects: dict[str, Object]) -> None:
    assert objects["CronJob"]["spec"]["concurrencyPolicy"] == "Forbid"


@pytest.fixture
def java(tmp_path: Path) -> Path:
    """A directory with a `java` that says what it was called with, an argument per line."""
    program = tmp_path / "java"
    program.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    program.chmod(0o755)
    return tmp_path


def _run(java: Path, *arguments: str) -> list[str]:
    path = os.pathsep.join((str(java), str(Path(sys.executable).parent), os.environ["PATH"]))
    environment = {**os.environ, **REPORTED, "PATH": path}
    done = subprocess.run(
        [ENTRYPOINT, *arguments], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()


def test_the_images_entrypoint_starts_an_executor_with_the_options_of_spark(java: Path) -> None:
    called = _run(java, "executor")
    assert called[:4] == ["-Xms2048m", "-Xmx2048m", "-Dfirst=1", "-Dsecond=two words"]
    backend = called.index("org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend")
    options = dict(zip(called[backend + 1 :: 2], called[backend + 2 :: 2], strict=True))
    assert options == {
        "--driver-url": "spark://driver",
        "--executor-id": "1",
        "--cores": "2",
        "--app-id": "app",
        "--hostname": "10.0.0.7",
        "--resourceProfileId": "0",
        "--podName": "onceover-exec-1",
    }


def test_the_images_entrypoint_runs_any_other_command_as_it_is(java: Path) -> None:
    assert _run(java, "echo", "a  b", "executor") == ["a  b executor"]


def test_the_image_has_that_entrypoint() -> None:
    dockerfile = (ROOT / "infra" / "images" / "onceover.Dockerfile").read_text()
    assert f'ENTRYPOINT ["/onceover/{ENTRYPOINT.relative_to(ROOT)}"]' in dockerfile
    assert os.access(ENTRYPOINT, os.X_OK)
