"""The wheel that others install: which names it owns, and that the DAG files need nothing but it."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("expectations", "spark_jobs")
CENSUS = ROOT / "tests" / "dags" / "census.py"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy: the build leaves files beside the sources."""
    place = tmp_path_factory.mktemp("wheel")
    source = place / "source"
    for name in ("dags", "infra", *PACKAGES):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    done = subprocess.run(
        [*pip, "--wheel-dir", str(place), str(source)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    [found] = place.glob("*.whl")
    return found


def _names(wheel: Path) -> set[str]:
    with ZipFile(wheel) as opened:
        return {name for name in opened.namelist() if ".dist-info/" not in name}


def test_the_wheel_owns_two_top_level_names(wheel: Path) -> None:
    assert {name.partition("/")[0] for name in _names(wheel)} == set(PACKAGES)


def test_everything_that_the_packages_need_is_in_it(wheel: Path) -> None:
    needed = {str(path.relative_to(ROOT)) for path in _sources() if "__pycache__" not in path.parts}
    assert needed <= _names(wheel)


def _sources() -> Iterator[Path]:
    for package in PACKAGES:
        for ending in (".py", ".j2", ".js", ".css", ".svg"):
            yield from (ROOT / package).rglob(f"*{ending}")


def test_dag_files_are_read_where_another_package_is_called_dags(wheel: Path, tmp_path: Path) -> None:
    installed, foreign = tmp_path / "installed", tmp_path / "foreign"
    with ZipFile(wheel) as opened:
        opened.extractall(installed)
    (foreign / "dags").mkdir(parents=True)
    (foreign / "dags" / "__init__.py").write_text("raise ImportError('a package of the company')\n")
    environment = {
        **os.environ,
        "AIRFLOW_HOME": str(tmp_path / "airflow"),
        "PYTHONPATH": os.pathsep.join(map(str, (foreign, installed))),
    }
    done = subprocess.run(
        [sys.executable, "-P", str(CENSUS)],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert {"onceover_nightly", "onceover_backfill", "onceover_quality"} <= found.keys()
