"""The messages between a task and the driver, one JSON object per line, and where a driver listens.

A task sends one request. The driver answers with any number of log lines and then with a result or a
failure. A task that closes the connection earlier has ended.
"""

import fcntl
import hmac
import json
import os
import secrets
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

import spark_jobs
from spark_jobs.flow import Step
from spark_jobs.kafka.errors import OnceoverError

_FROM_TEXT = {"day": date.fromisoformat, "step": Step}
"""Fields that JSON has no type for, by name."""
OWNER_ONLY = 0o700
NAME_DIGITS = 16
KEY_BYTES = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request to the driver of a lake; `master` and `conf` override the Spark settings of `config`.

    `connections` are environment variables of the driver with logins of Airflow connections.
    """

    config: str
    master: str = ""
    conf: Mapping[str, str] = field(default_factory=dict, repr=False)
    connections: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRequest(Request):
    """One step of one run, in the run itself: never `report`.

    `more_steps_follow` says that more steps of the same run will follow, so it does not become final with
    this one. `restage` has `stage` list the sources again though an earlier attempt has fixed the inputs.
    """

    day: date
    step: Step
    more_steps_follow: bool
    restage: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcesRequest(Request):
    """Lists the configured sources; the first request of a run, so Spark may start meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchRequest(Request):
    """The objects of one source, ahead of `stage`, which will `restage` or not."""

    day: date
    source: str
    restage: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportRequest(Request):
    """The step `report`, which needs no Spark; `run_id` is empty if the run is unknown."""

    run_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireRequest(Request):
    """Removes what is older than the configured retention."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest(Request):
    """What a backfill would do; `backfill` is the plain form of a `BackfillRequest`."""

    backfill: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class DaysRequest(Request):
    """The days of a backfill that are due after `after` and up to `until`; empty for no bound."""

    backfill: Mapping[str, Any]
    after: str = ""
    until: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StopRequest:
    """Stops the driver."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """Something for the task's log."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StepAnswer:
    """The step is done; `worked` is false if it had been done before.

    `tables` are the tables that `publish` has committed, each with its `snapshot_id` and `location`.
    """

    run_id: str
    worked: bool
    is_final: bool
    counts: Mapping[str, int]
    tables: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The result of a request other than a step, as JSON values by name."""

    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """The step failed; `transient` says whether a retry can help, `trace` is for bug reports."""

    message: str
    transient: bool
    trace: str = ""


DriverRequest = SourcesRequest | FetchRequest | ReportRequest | ExpireRequest | PlanRequest | DaysRequest
"""Requests that are answered by `Answer`."""
Message = StepRequest | DriverRequest | StopRequest | LogLine | StepAnswer | Answer | Failure
_KINDS = (
    StepRequest,
    SourcesRequest,
    FetchRequest,
    ReportRequest,
    ExpireRequest,
    PlanRequest,
    DaysRequest,
    StopRequest,
    LogLine,
    StepAnswer,
    Answer,
    Failure,
)
_TYPES: dict[str, type[Any]] = {each.__name__: each for each in _KINDS}


def write_message(message: Message) -> bytes:
    """One line."""
    fields = {
        name: str(value) if isinstance(value, date) else value for name, value in asdict(message).items()
    }
    return json.dumps({"is": type(message).__name__, **fields}).encode() + b"\n"


def read_message(line: bytes) -> Message:
    """The message in one line; both ends run the same version."""
    fields = json.loads(line)
    kind = _TYPES[fields.pop("is")]
    typed = {name: _FROM_TEXT[name](text) for name, text in fields.items() if name in _FROM_TEXT}
    message: Message = kind(**{**fields, **typed})
    return message


class UnsafeDirectory(OnceoverError):
    """The directory is not owned by this user, or others may access it."""


@dataclass(frozen=True, slots=True)
class DriverFiles:
    """The files of one driver, all named alike."""

    directory: Path
    name: str

    @property
    def socket(self) -> Path:
        return self.directory / f"{self.name}.socket"

    @property
    def log(self) -> Path:
        """What the driver and its JVM print."""
        return self.directory / f"{self.name}.log"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Serialises starting, connecting to and stopping a driver."""
        with (self.directory / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def driver_files(*belongings: str) -> DriverFiles:
    """The files of the driver for a configuration and other settings, such as the Spark master.

    The code's modification time is part of the name, so that a driver of older code is not reused. Every user
    of the machine can read the name, and settings may have passwords: without the key they cannot be guessed.
    """
    directory, text = _directory(), "\0".join((*belongings, code_stamp()))
    return DriverFiles(
        directory, hmac.new(_key(directory), text.encode(), "sha256").hexdigest()[:NAME_DIGITS]
    )


def _key(directory: Path) -> bytes:
    """Random bytes, the same for all names in the directory."""
    with (directory / "key").open("a+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        if not (key := file.read()):
            file.write(key := secrets.token_bytes(KEY_BYTES))
        return key


def code_stamp() -> str:
    """Changes whenever a file of the package does."""
    files = Path(spark_jobs.__path__[0]).rglob("*.py")
    return str(max(file.stat().st_mtime_ns for file in files))


def _directory() -> Path:
    base = os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir()
    directory = Path(base) / f"onceover-{os.getuid()}"
    directory.mkdir(mode=OWNER_ONLY, exist_ok=True)
    status = directory.lstat()
    if status.st_uid != os.getuid() or status.st_mode & 0o777 != OWNER_ONLY or directory.is_symlink():
        raise UnsafeDirectory(f"{directory}: expected a directory that belongs to this user alone; remove it")
    return directory
