"""The three processes: started together, ended together, none left behind, not even of one that died."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from importlib.metadata import version

from infra.embedded.home import EmbeddedFailed, Home
from spark_jobs.lake.process_identity import PROC, ProcessIdentity, process, start_apart

COMMANDS = {
    "api-server": ("api-server",),
    "scheduler": ("scheduler", "--skip-serve-logs"),  # else it would serve logs on all interfaces
    "dag-processor": ("dag-processor",),
}
SECONDS_TO_END = 20.0
SECONDS_BETWEEN_LOOKS = 0.2
TAIL_LINES = 15
OWNER_ONLY = 0o700


def prepare(home: Home) -> None:
    """The directory and its database, once per version of Airflow."""
    home.directory.mkdir(parents=True, exist_ok=True)
    home.directory.chmod(OWNER_ONLY)  # its database and logs are private, too
    stamp = home.database_file.with_suffix(f".{version('apache-airflow')}")
    if stamp.exists():
        return
    done = subprocess.run(  # noqa: S603 — our own program
        [*_airflow(), "db", "migrate"], env=home.environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise EmbeddedFailed(f"the database could not be made:\n{_tail(done.stdout + done.stderr)}")
    stamp.touch()


def start(home: Home) -> None:
    """All services, each with a process group and a log of its own."""
    _ = home.password
    started = {}
    for name in COMMANDS:
        pid = start_apart(command(name), environment=home.environment, log=home.log(name))
        started[name] = asdict(process(pid))
    home.services.write_text(json.dumps({"port": home.port, "processes": started}))


def command(service: str) -> list[str]:
    """What a service is called with."""
    return [*_airflow(), *COMMANDS[service]]


def running(home: Home) -> dict[str, int]:
    """The services that live, by name, with their process numbers."""
    if not home.services.exists():
        return {}
    known = json.loads(home.services.read_text())["processes"]
    return {name: each["pid"] for name, each in known.items() if ProcessIdentity(**each).lives_for_sure()}


def port_in_use(home: Home) -> int:
    """The port that the running services listen on."""
    return int(json.loads(home.services.read_text())["port"])


def check_alive(home: Home) -> None:
    """Raises if a service has ended, with the end of its log."""
    for name in set(COMMANDS) - set(running(home)):
        raise EmbeddedFailed(f"{name} ended:\n{_tail(home.log(name).read_text(errors='replace'))}")


def stop(home: Home) -> None:
    """Ends every service that runs, and what is left of one that died: by SIGTERM first, then by SIGKILL."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        for group in groups(home):
            with suppress(ProcessLookupError):
                os.killpg(group, sign)
        deadline = time.monotonic() + SECONDS_TO_END
        while groups(home) and time.monotonic() < deadline:
            time.sleep(SECONDS_BETWEEN_LOOKS)
    home.services.unlink(missing_ok=True)


def groups(home: Home) -> set[int]:
    """The process groups of the services: of every process that writes to their logs.

    A killed scheduler leaves workers behind, which continue their tasks.
    """
    logs = {(status.st_dev, status.st_ino) for name in COMMANDS for status in _status(str(home.log(name)))}
    pids = (int(path.name) for path in PROC.glob("[0-9]*"))
    writers = (
        pid for pid in pids for out in _status(f"{PROC}/{pid}/fd/1") if (out.st_dev, out.st_ino) in logs
    )
    return {group for pid in writers for group in _group(pid)}


def _status(path: str) -> Iterator[os.stat_result]:
    """Of a file that exists and may be looked at, or nothing."""
    with suppress(OSError):
        yield os.stat(path)  # noqa: PTH116 — through a link of the kernel's, which names no path


def _group(pid: int) -> Iterator[int]:
    with suppress(ProcessLookupError):
        yield os.getpgid(pid)


def _airflow() -> list[str]:
    return [sys.executable, "-m", "airflow"]


def _tail(text: str) -> str:
    return "\n".join(text.strip().splitlines()[-TAIL_LINES:])
