"""The form's `restage` reaches `fetch` and `stage`: the tasks ask a real driver, as Airflow runs them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from spark_jobs.driver.client import stop_driver
from spark_jobs.driver.protocol import SourcesRequest
from tests.pipeline.index.objects import plain_object
from tests.pipeline.runs import CAPTURE, place_at

TASK = (
    "import json, logging, sys; from spark_jobs.airflow import tasks;"
    "from spark_jobs.flow import Step; log = logging.getLogger('onceover');"
    "log.setLevel('INFO'); log.addHandler(logging.StreamHandler(sys.stderr));"
    "context = {'params': json.loads(sys.argv[1])};"
    "tasks.get_current_context = lambda: context;"
    "fetched = tasks.fetch.function('gateway');"
    "done = tasks.do_step(context, Step.STAGE);"
    "print(json.dumps([fetched['objects'], done['counts']['objects']]))"
)
"""What the tasks `fetch` and `stage` of one DAG run do; only the context that Airflow gives is made here."""


@pytest.fixture
def config(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("d")))
    path = tmp_path / "onceover.yaml"
    path.write_text(CAPTURE)
    place_at(tmp_path).arrive("dt=2024-05-01/orders-0/a", plain_object(3))
    return path


def _trigger(config: Path, **params: object) -> tuple[list[int], str]:
    """Objects that `fetch` and `stage` count, and what they log."""
    environment = {
        **os.environ,
        "AIRFLOW_HOME": str(config.parent / "airflow"),
        "AIRFLOW_CONN_ONCEOVER_SPARK": '{"conn_type": "spark", "host": "local[1]"}',
        "ONCEOVER_CONFIG": str(config),
    }
    command = [sys.executable, "-c", TASK, json.dumps({"date": "2024-05-01", **params})]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: list[int] = json.loads(done.stdout.splitlines()[-1])
    return found, done.stderr


def test_an_attempt_continues_with_fixed_inputs_unless_it_is_triggered_with_restage(config: Path) -> None:
    try:
        assert _trigger(config)[0] == [1, 1]
        place_at(config.parent).arrive("dt=2024-05-01/orders-0/b", plain_object(2))

        again, log = _trigger(config, restage=False)
        assert again == [0, 1]
        assert "1 objects are new" in log
        assert "trigger with restage" in log

        assert _trigger(config, restage=True)[0] == [2, 2]
    finally:
        stop_driver(SourcesRequest(config=str(config), master="local[1]"))
