"""Directories of temporary files, one owner each: those of processes that have ended are removed.

A name has the owner's pid, start time and realm. Whether a process of another realm still runs, such as one
in a container with the same directory, cannot be determined: its files are removed when they are a day old.
"""

import os
import re
import shutil
import tempfile
import time
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from spark_jobs.lake.process_identity import process, this_process

NAME = re.compile(r"onceover-(\d+)-(\d*)-([0-9a-f]{12})(?:-.*)?")
"""Pid, start time and digest of the realm."""
REALM_DIGITS = 12
ABANDONED_SECONDS = 86_400
"""Temporary files that are a day old belong to a process that has ended."""


def scratch_name() -> str:
    """The name of this process' directory."""
    me = this_process()
    return f"onceover-{me.pid}-{me.started}-{_digest(me.realm)}"


def scratch_directory(parent: Path) -> Path:
    """A new directory that only this user can read; those of processes that have ended are removed first."""
    sweep(parent)
    return Path(tempfile.mkdtemp(prefix=f"{scratch_name()}-", dir=parent))


def in_use(directory: Path) -> Path:
    """The directory, made if it is missing and with the present time, so that no other realm removes it."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.utime(directory)
    return directory


def sweep(parent: Path) -> None:
    """Removes the directories of processes that have ended."""
    realm = this_process().realm
    for path in parent.glob("onceover-*"):
        owner = NAME.fullmatch(path.name)
        if owner is None or path.is_symlink():
            continue
        is_near = bool(realm) and owner[3] == _digest(realm)
        if (process(int(owner[1])).started != owner[2]) if is_near else is_abandoned(path):
            shutil.rmtree(path, ignore_errors=True)


def is_abandoned(path: Path) -> bool:
    """Whether a file, or a directory with all its files, is a day old."""
    newest = 0.0
    with suppress(OSError):  # removed meanwhile
        newest = max(each.lstat().st_mtime for each in (path, *path.rglob("*")))
    return 0 < newest < time.time() - ABANDONED_SECONDS


def _digest(realm: str) -> str:
    return sha256(realm.encode()).hexdigest()[:REALM_DIGITS]
