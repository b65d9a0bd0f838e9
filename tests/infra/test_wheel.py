"""The wheel that others install: which names it owns, what works without extras, what DAG files need."""

import json
import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from spark_jobs.cli import COMMANDS
from spark_jobs.extras import MODULES, Extra, ExtraMissing

ROOT = Path(__file__).parents[2]
PACKAGES = ("expectations", "onceover", "spark_jobs")
RECORDING = ROOT / "tests" / "recordings" / "data" / "oracle_D" / "data"
UV = Path(sys.executable).with_name("uv")
SDIST = "import sys; from setuptools import build_meta; print(build_meta.build_sdist(sys.argv[1]))"
CENSUS = ROOT / "tests" / "dags" / "census.py"


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what is built: a build leaves files beside the sources."""
    copy = tmp_path_factory.mktemp("source")
    for name in ("dags", "infra", *PACKAGES):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE", "MANIFEST.in"):
        shutil.copy(ROOT / name, copy)
    return copy


@pytest.fixture(scope="module")
def wheel(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _build_wheel(source, tmp_path_factory.mktemp("wheel"))


def _build_wheel(source: Path, to: Path) -> Path:
    """Without a network: setuptools is installed here."""
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-index", "--no-deps", "--no-build-isolation"]
    _done([*pip, "--wheel-dir", to, source])
    [found] = to.glob("*.whl")
    return found


def _run(command: Sequence[object], **options: Any) -> subprocess.CompletedProcess[str]:
    done: subprocess.CompletedProcess[str] = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, check=False, **options
    )
    return done


def _done(command: Sequence[object], **options: Any) -> str:
    """The standard output of a command that must succeed."""
    done = _run(command, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def core(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an empty environment into which the wheel was installed, in the versions that are pinned.

    Packages come from the cache that `make setup` has filled; where it did not, from the registry.
    """
    environment = tmp_path_factory.mktemp("core") / "environment"
    _done([sys.executable, "-m", "venv", "--without-pip", environment])
    python = environment / "bin" / "python"
    install = [UV, "pip", "install", "--quiet", "--python", python, "-c", ROOT / "requirements.txt", wheel]
    if _run([*install, "--offline"]).returncode != 0:
        _done(install)
    return python


@pytest.fixture
def outside(tmp_path: Path) -> dict[str, Any]:
    """How a command is run that must not see the repository."""
    return {"cwd": tmp_path, "env": {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}}


def _names(wheel: Path) -> set[str]:
    with ZipFile(wheel) as opened:
        return {name for name in opened.namelist() if ".dist-info/" not in name}


def test_the_wheel_owns_three_top_level_names(wheel: Path) -> None:
    assert {name.partition("/")[0] for name in _names(wheel)} == set(PACKAGES)


def test_the_sdist_has_what_the_wheel_is_built_from(source: Path, wheel: Path, tmp_path: Path) -> None:
    name = _done([sys.executable, "-c", SDIST, tmp_path], cwd=source).splitlines()[-1]
    with tarfile.open(tmp_path / name) as opened:
        opened.extractall(tmp_path, filter="data")
    assert _names(_build_wheel(tmp_path / name.removesuffix(".tar.gz"), tmp_path)) == _names(wheel)


def _core_contract() -> dict[str, list[str]]:
    """What the core is, and what it must not import, or only when asked for, as import-linter checks it."""
    configured = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    [found] = [each for each in configured if each["name"] == "The core imports no extra"]
    asked_for = [each.partition(" -> ")[2] for each in found["ignore_imports"]]
    return {"modules": found["source_modules"], "extras": found["forbidden_modules"], "asked_for": asked_for}


IMPORT_ALL = """
import json, sys
from importlib import import_module
from importlib.util import find_spec
from pkgutil import walk_packages

asked = json.loads(sys.argv[1])
import onceover
for name in asked["modules"]:
    module = import_module(name)
    for each in walk_packages(getattr(module, "__path__", ()), f"{name}."):
        try:
            import_module(each.name)
        except ModuleNotFoundError as missing:
            if missing.name not in asked["asked_for"]:
                raise
found = [name for name in asked["extras"] if find_spec(name) is not None or name in sys.modules]
print(json.dumps({"extras": found, "file": onceover.__file__, "version": onceover.__version__}))
"""


def test_the_core_is_imported_where_no_extra_is_installed(core: Path, outside: dict[str, Any]) -> None:
    asked = _core_contract()
    found = json.loads(_done([core, "-c", IMPORT_ALL, json.dumps(asked)], **outside))
    assert found["extras"] == []
    assert Path(found["file"]).is_relative_to(core.parents[1])
    assert found["version"].startswith("0.")


@pytest.mark.parametrize("options", [(), ("--records", "--isolation", "read_committed", "--json")])
def test_inspect_needs_no_extra(core: Path, outside: dict[str, Any], options: tuple[str, ...]) -> None:
    partitions = sorted(RECORDING.glob("orc-*"))
    assert partitions
    shown = _done([core.with_name("onceover"), "inspect", *partitions, *options], **outside)
    assert shown == _done([sys.executable, "-m", "spark_jobs", "inspect", *partitions, *options], cwd=ROOT)


def _other_python(version: str) -> Path | None:
    """An interpreter of this version that pyenv or the PATH has."""
    homes = (
        Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions"),
        Path("/usr/local"),
        Path("/usr"),
    )
    found = [
        *homes[0].glob(f"{version}.*/bin/python"),
        *(home / f"bin/python{version}" for home in homes[1:]),
    ]
    return next((path for path in found if path.exists()), None)


@pytest.mark.parametrize("version", ["3.12", "3.13"])
def test_the_wheel_reads_logs_on_other_versions_of_python(
    wheel: Path, version: str, tmp_path: Path, outside: dict[str, Any]
) -> None:
    interpreter = _other_python(version)
    if interpreter is None:
        pytest.skip(f"no Python {version} on this machine")
    _done([interpreter, "-m", "venv", "--without-pip", tmp_path / "environment"])
    python = tmp_path / "environment" / "bin" / "python"
    install = [UV, "pip", "install", "--quiet", "--python", python, "-c", ROOT / "requirements.txt", wheel]
    if _run([*install, "--offline"]).returncode != 0 and _run(install).returncode != 0:
        pytest.skip(f"the packages of the core for Python {version} are not in the cache of uv, or to be had")
    records = (RECORDING.parent / "truth.jsonl").read_text().splitlines()
    assert _done([python, "-c", READ, RECORDING], **outside) == f"{len(records)} False\n"
    partitions = sorted(RECORDING.glob("orc-*"))
    shown = _done([python.with_name("onceover"), "inspect", *partitions], **outside)
    assert shown == _done([sys.executable, "-m", "spark_jobs", "inspect", *partitions], cwd=ROOT)


READ = """
import sys, onceover
print(onceover.read_log(sys.argv[1]).read_all().num_rows, "numba" in sys.modules)
"""


def test_reading_and_explaining_a_small_log_needs_no_extra_and_no_compiler(
    core: Path, outside: dict[str, Any]
) -> None:
    records = (RECORDING.parent / "truth.jsonl").read_text().splitlines()
    assert _done([core, "-c", READ, RECORDING], **outside) == f"{len(records)} False\n"
    [partition, *_] = sorted(RECORDING.glob("orc-*"))
    explained = _done([core.with_name("onceover"), "explain", partition, "--json"], **outside)
    assert "visible to all consumers" in explained


CALL_ALL = """
import json, sys
from typer.testing import CliRunner
from spark_jobs.cli import app

calls = json.loads(sys.argv[1])
results = [CliRunner().invoke(app, call) for call in calls]
print(json.dumps([[result.exit_code, result.output] for result in results]))
"""
SOMETHING = {
    "backfill": ("--config", "x", "--from", "2026-03-01", "--to", "2026-03-01"),
    "check": ("--config", "x"),
    "dashboard": ("--config", "x"),
    "expire": ("--config", "x"),
    "lake": ("relocate", "--config", "x"),
    "repair": ("--config", "x"),
    "replay": ("run", "--config", "x", "--list"),
    "rollback": ("run", "--config", "x"),
    "run": ("--config", "x", "--date", "2026-03-01"),
    "tables": ("--config", "x"),
}
"""Arguments of commands that need the extra `pipeline`."""


def test_a_command_without_its_extra_names_it(core: Path, outside: dict[str, Any]) -> None:
    calls = [(name, *arguments) for name, arguments in SOMETHING.items()]
    results = json.loads(_done([core, "-c", CALL_ALL, json.dumps(calls)], **outside))
    for call, (exit_code, output) in zip(calls, results, strict=True):
        name = "lake relocate" if call[0] == "lake" else call[0]
        missing = ExtraMissing(Extra.PIPELINE, f"onceover {name}", MODULES[Extra.PIPELINE])
        assert (exit_code, output) == (1, f"onceover: {missing}\n")


def test_help_and_commands_of_the_core_need_no_extra(core: Path, outside: dict[str, Any]) -> None:
    commands = [(name, "--config", "absent") for name in ("runs", "transactions")]
    calls = [*((name, "--help") for name in COMMANDS), ("sample", "sample"), *commands]
    results = json.loads(_done([core, "-c", CALL_ALL, json.dumps(calls)], **outside))
    *helped, sampled, listed, _ = results
    assert [exit_code for exit_code, _ in helped] == [0] * len(COMMANDS)
    assert sampled[0] == 0
    assert "absent" in listed[1]


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
