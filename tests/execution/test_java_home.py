"""Which Java Spark gets: the machine's own if it is new enough, else the wheel's."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from spark_jobs.execution.classic import is_new_enough, java_home, machine_java_home, wheel_java_home


def a_java(directory: Path, version: str) -> Path:
    """A program that says it is a Java of this version."""
    java = directory / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-01-01' >&2\n")
    java.chmod(0o755)
    return java


@pytest.mark.parametrize(
    ("version", "verdict"), [("1.8.0_412", False), ("11.0.2", False), ("17.0.1", True), ("25", True)]
)
def test_java_17_or_newer_is_taken(tmp_path: Path, version: str, verdict: bool) -> None:
    assert is_new_enough(a_java(tmp_path, version)) is verdict


def test_java_home_comes_before_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a_java(tmp_path / "named", "21.0.1")
    a_java(tmp_path / "found", "17.0.1")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "named"))
    monkeypatch.setenv("PATH", f"{tmp_path / 'found' / 'bin'}{os.pathsep}{os.environ['PATH']}")
    assert machine_java_home() == tmp_path / "named"


def test_an_old_java_home_gives_way_to_a_newer_java_on_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_java(tmp_path / "named", "11.0.1")
    a_java(tmp_path / "found", "17.0.1")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "named"))
    monkeypatch.setenv("PATH", f"{tmp_path / 'found' / 'bin'}{os.pathsep}{os.environ['PATH']}")
    assert machine_java_home() == tmp_path / "found"


def test_a_machine_without_java_gets_the_wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    assert java_home() == tmp_path / "java"


def test_the_wheels_java_starts_with_the_option_that_spark_passes_and_it_cannot_know(tmp_path: Path) -> None:
    java = wheel_java_home(tmp_path / "java") / "bin" / "java"
    command = [str(java), "--add-modules=jdk.incubator.vector", "-Dgreeting=two words", "-version"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    assert is_new_enough(java)
