"""Paths of this machine are refused where executors run on others."""

from pathlib import Path

import pytest

from spark_jobs.config.load import InvalidConfig, parse_settings
from spark_jobs.config.settings import Settings
from spark_jobs.config.spark_master import check_executors_reach

REMOTE = ["spark://10.0.0.1:7077", "yarn", "k8s://https://api:443", "sc://connect.example:15002"]
NEAR = [
    "local",
    "local[*]",
    "local[2,3]",
    "local-cluster[2,1,1024]",
    "spark://127.0.0.1:7077",
    "sc://localhost",
]


def _settings(lake: str, root: str, more: str = "") -> Settings:
    text = f"lake: {lake}\nsources:\n  - {{name: gateway, kind: capture, root: {root}}}\n{more}"
    return parse_settings(text, name="a.yaml", base=Path("/data"))


@pytest.mark.parametrize("master", REMOTE)
def test_a_path_is_refused_for_a_remote_master(master: str) -> None:
    with pytest.raises(InvalidConfig, match="the path of lake /data/lake: use s3"):
        check_executors_reach(_settings("lake", "s3://raw/gateway"), master)
    with pytest.raises(InvalidConfig, match="the path of source 'gateway' /data/gateway: use s3"):
        check_executors_reach(_settings("s3://lake/lake", "gateway"), master)


@pytest.mark.parametrize("master", NEAR)
def test_a_path_is_taken_on_this_machine(master: str) -> None:
    check_executors_reach(_settings("lake", "gateway"), master)


@pytest.mark.parametrize("master", REMOTE)
def test_shared_paths_and_buckets_are_taken(master: str) -> None:
    check_executors_reach(_settings("lake", "gateway", "spark: {shared_paths: true}\n"), master)
    check_executors_reach(_settings("s3://lake/lake", "s3://raw/gateway"), master)
