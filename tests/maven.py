"""Jars for tests, fetched through Maven into the user's cache by the project's own poms."""

import fcntl
import os
import shutil
import subprocess
from pathlib import Path

import pytest

INFRA = Path(__file__).parents[1] / "infra"
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"), "onceover", "jars")
GOAL = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
FETCH_SECONDS = 600
DONE = ".complete"


class JarsMissing(Exception):
    """They cannot be had on this machine; the message says why."""


def jars_of(name: str) -> Path:
    """The folder with the jars of `infra/NAME/pom.xml`; skips the test where they cannot be had."""
    try:
        return fetched_jars(name)
    except JarsMissing as missing:
        pytest.skip(str(missing))


def fetched_jars(name: str) -> Path:
    """The folder with the jars of `infra/NAME/pom.xml`, fetched the first time."""
    pom, folder = INFRA / name / "pom.xml", CACHE / name.replace("/", "-")
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # parallel test processes fetch them once
        if not _stands(folder, pom):
            _fetch(name, pom, folder)
            (folder / DONE).write_text(pom.read_text())
    return folder


def _fetch(name: str, pom: Path, folder: Path) -> None:
    if not shutil.which("mvn") or not shutil.which("java"):
        raise JarsMissing(f"no jars of {name}: they need Maven and Java on the PATH")
    command = ["mvn", "-q", "-B", "-f", str(pom), GOAL, f"-DoutputDirectory={folder}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise JarsMissing(f"no jars of {name}: Maven did not fetch them in {FETCH_SECONDS} s") from None
    if done.returncode:
        raise JarsMissing(f"no jars of {name}: Maven could not fetch them: {done.stdout.strip()[-300:]}")


def _stands(folder: Path, pom: Path) -> bool:
    mark = folder / DONE
    return mark.exists() and mark.read_text() == pom.read_text()
