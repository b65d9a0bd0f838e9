"""Real catalogs as processes on this machine: Postgres for SQL, Iceberg's own test server for REST."""

import os
import pwd
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from tests.maven import jars_of

DEBIAN = Path("/usr/lib/postgresql")
START_SECONDS = 240
STOP_SECONDS = 120
REST_SERVER = Path(__file__).parents[1] / "infra" / "iceberg" / "rest" / "LoopbackCatalog.java"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def running_postgres(directory: Path) -> Iterator[str]:
    """A database of its own below `directory`; yields the URI that SQLAlchemy takes."""
    programs = _postgres_programs()
    data, port = directory / "data", free_port()
    directory.mkdir(parents=True, exist_ok=True)
    as_user = _plain_user(directory)
    _run([*as_user, str(programs / "initdb"), "-D", str(data), "-U", "onceover", "-A", "trust", "-N"])
    options = (
        f"-c listen_addresses=127.0.0.1 -c port={port} -c unix_socket_directories={directory} -c fsync=off"
    )
    control = [*as_user, str(programs / "pg_ctl"), "-D", str(data), "-w", "-t", str(START_SECONDS)]
    _run([*control, "-l", str(directory / "log"), "-o", options, "start"])
    try:
        yield f"postgresql+psycopg2://onceover@127.0.0.1:{port}/postgres"
    finally:
        _run([*control, "-m", "immediate", "stop"])


def _postgres_programs() -> Path:
    if shutil.which("initdb"):
        return Path(str(shutil.which("initdb"))).parent
    found = sorted(DEBIAN.glob("*/bin/initdb"))
    if not found:
        pytest.skip("no SQL catalog: Postgres is not installed")
    return found[-1].parent


def _plain_user(directory: Path) -> list[str]:
    """Postgres refuses to run as root: then another user owns the directory and runs it."""
    if os.getuid() != 0:
        return []
    names = {entry.pw_name for entry in pwd.getpwall()}
    if "postgres" not in names or not shutil.which("setpriv"):
        pytest.skip("no SQL catalog: Postgres does not run as root, and there is no user 'postgres'")
    shutil.chown(directory, "postgres")
    for parent in directory.parents:
        if not parent.stat().st_mode & 0o001:
            parent.chmod(parent.stat().st_mode | 0o011)
    return ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]


@contextmanager
def running_rest_catalog(directory: Path, warehouse: str) -> Iterator[str]:
    """The server that the Iceberg project tests its clients with; yields its address."""
    port, jars = free_port(), jars_of("iceberg/rest")
    directory.mkdir(parents=True, exist_ok=True)
    java = ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", f"{jars}/*", str(REST_SERVER)]
    command = [*java, str(port), f"jdbc:sqlite:{directory / 'catalog.db'}", warehouse]
    with (directory / "server.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        try:
            _wait_until_up(process, f"http://127.0.0.1:{port}/v1/config", directory / "server.log")
            yield f"http://127.0.0.1:{port}"
        finally:
            process.kill()
            process.wait(timeout=STOP_SECONDS)


def _wait_until_up(process: subprocess.Popen[bytes], address: str, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            urlopen(address, timeout=5).close()
        except (URLError, OSError):
            time.sleep(0.1)
        else:
            return
    raise AssertionError(f"the REST catalog did not start: {log.read_text(errors='replace')[-500:]}")


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/")
    assert done.returncode == 0, f"{command[0]}: {done.stdout[-500:]}{done.stderr[-500:]}"
