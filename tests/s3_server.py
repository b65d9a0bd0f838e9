"""A real S3 server as a process: versitygw on loopback, files below, credentials made up for each start.

Built once with Go into the user's cache. Without Go, or where the build fails, tests that need it are skipped
with the reason.
"""

import fcntl
import os
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

import pytest

from infra.cluster.topology import VERSITYGW_PACKAGE, VERSITYGW_VERSION, s3_command
from spark_jobs.config.settings import S3Settings

BUILD_SECONDS = 900
START_SECONDS = 120
STOP_SECONDS = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Server:
    """A running server; `files` is the directory behind it, one subdirectory per bucket."""

    endpoint_url: str
    files: Path
    environment: dict[str, str]

    @property
    def settings(self) -> S3Settings:
        return S3Settings(endpoint_url=self.endpoint_url, addressing="path", max_attempts=3)

    def new_bucket(self) -> str:
        """Makes an empty bucket and returns its name."""
        name = f"test-{secrets.token_hex(6)}"
        (self.files / name).mkdir()
        return name


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """One server for all tests of a process, its credentials where the AWS chain looks first."""
    with running_s3_server(tmp_path_factory.mktemp("s3")) as server, pytest.MonkeyPatch.context() as patch:
        for name, value in server.environment.items():
            patch.setenv(name, value)
        yield server


@contextmanager
def running_s3_server(directory: Path, keys: tuple[str, str] | None = None) -> Iterator[S3Server]:
    """Starts a server with its files below `directory`, stops it at the end; skips where there is none.

    `keys` are its access key and secret; without them it gets new ones.
    """
    files = directory / "buckets"
    files.mkdir(parents=True)
    port, keys = _free_port(), keys or new_keys()
    _, *arguments = s3_command(address=f"127.0.0.1:{port}", directory=str(files))
    command = [str(versitygw()), *arguments]
    environment = {**os.environ, "ROOT_ACCESS_KEY": keys[0], "ROOT_SECRET_KEY": keys[1]}
    with (directory / "server.log").open("wb") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT)
        try:
            _wait_until_up(process, port, directory / "server.log")
            credentials = {"AWS_ACCESS_KEY_ID": keys[0], "AWS_SECRET_ACCESS_KEY": keys[1]}
            yield S3Server(endpoint_url=f"http://127.0.0.1:{port}", files=files, environment=credentials)
        finally:
            process.terminate()
            process.wait(timeout=STOP_SECONDS)


def new_keys() -> tuple[str, str]:
    """An access key and its secret."""
    return secrets.token_hex(10), secrets.token_hex(20)


def place_of_versitygw() -> Path:
    """Where the server's binary is, or will be once it is built."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    return cache / "onceover" / "bin" / f"versitygw-{VERSITYGW_VERSION}"


def versitygw() -> Path:
    """The server's binary, built if need be."""
    binary = place_of_versitygw()
    if binary.exists():
        return binary
    if shutil.which("go") is None:
        pytest.skip("no S3 server: Go is not installed, so versitygw cannot be built")
    binary.parent.mkdir(parents=True, exist_ok=True)
    with binary.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # parallel test processes build it once
        if not binary.exists():
            _build(binary)
    return binary


def _build(binary: Path) -> None:
    with tempfile.TemporaryDirectory(dir=binary.parent) as directory:
        environment = {**os.environ, "GOBIN": directory, "CGO_ENABLED": "0"}
        command = ["timeout", str(BUILD_SECONDS), "go", "install", VERSITYGW_PACKAGE]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"no S3 server: versitygw could not be built: {done.stderr.strip()[-300:]}")
        Path(directory, "versitygw").rename(binary)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_until_up(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            urlopen(f"http://127.0.0.1:{port}/", timeout=5)
        except HTTPError:
            return  # it answers, if only that it does not know us
        except (URLError, OSError):
            time.sleep(0.05)
    raise AssertionError(f"the S3 server did not start: {log.read_text(errors='replace')[-500:]}")
