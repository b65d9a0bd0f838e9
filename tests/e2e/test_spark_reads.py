"""Spark's own Iceberg reader gets from the tables what a real consumer got from the broker.

Iceberg has no runtime yet for the Spark that Onceover runs on, so this one has an environment of its own in
the user's cache. It takes 450 MB to fetch: only where `ONCEOVER_SPARK_READER=1` asks for it.
"""

import base64
import fcntl
import json
import os
import subprocess
import sys
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.config.load import parse_settings
from spark_jobs.config.settings import Settings
from spark_jobs.execution.classic import java_home
from spark_jobs.lake.iceberg.catalog import CATALOG_FILE, WAREHOUSE, open_catalog
from tests.maven import CACHE, jars_of
from tests.pipeline.materialise.truth import DATA, as_truth, in_order, recorded_partitions, truth_of
from tests.pipeline.resolved import do_until_published, resolved_run

SPARK = "pyspark==4.1.4"
"""What `infra/iceberg/spark/pom.xml` names a runtime for."""
ASKED = "ONCEOVER_SPARK_READER"
READER = Path(__file__).with_name("spark_reader.py")


def spark_python() -> Path:
    """The Python of an environment with that Spark; skips the test if it is not requested."""
    place = CACHE.parent / SPARK.replace("==", "-")
    python, mark = place / "bin" / "python", place / ".complete"
    if mark.exists():
        return python
    if not os.environ.get(ASKED):
        pytest.skip(f"no {SPARK} in the cache: {ASKED}=1 fetches it (450 MB)")
    place.parent.mkdir(parents=True, exist_ok=True)
    with place.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        uv = str(Path(sys.executable).with_name("uv"))
        subprocess.run([uv, "venv", "-q", "--clear", "--python", sys.executable, str(place)], check=True)
        subprocess.run([uv, "pip", "install", "-q", "--python", str(python), SPARK], check=True)
        mark.touch()
    return python


def read_by_spark(settings: Settings, tables: dict[str, str]) -> list[dict[str, Any]]:
    """The rows of tables, by name with their topic."""
    jars = ",".join(map(str, sorted(jars_of("iceberg/spark").glob("*.jar"))))
    lake = Path(settings.lake)
    command = [str(spark_python()), str(READER), jars, str(lake / CATALOG_FILE), str(lake / WAREHOUSE)]
    environment = {**os.environ, "JAVA_HOME": str(java_home()), "SPARK_LOCAL_IP": "127.0.0.1"}
    for name in ("SPARK_HOME", "PYSPARK_PYTHON", "PYTHONPATH"):
        environment.pop(name, None)
    done = subprocess.run(
        [*command, *tables], env=environment, capture_output=True, text=True, check=False, cwd=lake
    )
    assert done.returncode == 0, done.stderr[-2000:]
    rows = [json.loads(line, object_hook=_bytes) for line in done.stdout.splitlines()]
    return in_order(as_truth(tables[row["table"]], row) for row in rows)


def _bytes(plain: dict[str, Any]) -> Any:
    return base64.b64decode(plain["bytes"]) if plain.keys() == {"bytes"} else plain


@pytest.mark.parametrize("recording", ["oracle_E", "workload_clean"])
def test_spark_reads_the_records_that_a_consumer_got(recording: str, tmp_path: Path) -> None:
    spark_python()
    root = DATA / recording / "data"
    config = f"lake: lake\nsources: [{{name: broker, kind: broker-log, root: '{root}', immutable: true}}]\n"
    settings = parse_settings(config, name="test.yaml", base=tmp_path)
    do_until_published(resolved_run(settings, recorded_partitions(recording), day=date(2024, 5, 1)))
    with open_catalog(settings) as catalog:
        names = catalog.list_tables("topics")
        tables = {".".join(name): catalog.load_table(name).properties["onceover.topic"] for name in names}
    assert read_by_spark(settings, tables) == truth_of(recording)
