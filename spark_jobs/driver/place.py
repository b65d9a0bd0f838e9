"""Where drivers can be found on this machine: a directory that only their owner can enter."""

import fcntl
import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import spark_jobs
from spark_jobs.protocol.errors import OnceoverError

OWNER_ONLY = 0o700
NAME_DIGITS = 16


class UnsafePlace(OnceoverError):
    """The directory is not owned by this user, or others may access it."""


@dataclass(frozen=True, slots=True)
class Place:
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


def place_of(*belongings: str) -> Place:
    """The place of the driver for a configuration and what else sets it apart, such as the Spark master.

    The code's modification time is part of the name, so that a driver of older code is not reused.
    """
    text = "\0".join((*belongings, code_stamp()))
    return Place(_directory(), hashlib.sha256(text.encode()).hexdigest()[:NAME_DIGITS])


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
        raise UnsafePlace(f"{directory}: expected a directory that belongs to this user alone; remove it")
    return directory
