"""A local directory for files to be uploaded to a remote store; those of dead processes are removed."""

import os
import re
import shutil
import tempfile
from pathlib import Path

from spark_jobs.lake.process import process

NAME = re.compile(r"onceover-(\d+)-(\d+)-.*")
"""Process number and start time of the owner."""


def scratch_directory(parent: Path) -> Path:
    """A new one of this process; those of dead processes of the same user are removed first."""
    _sweep(parent)
    me = process(os.getpid())
    return Path(tempfile.mkdtemp(prefix=f"onceover-{me.pid}-{me.started}-", dir=parent))


def _sweep(parent: Path) -> None:
    for path in parent.glob("onceover-*"):
        owner = NAME.fullmatch(path.name)
        if owner and process(int(owner[1])).started != owner[2]:
            shutil.rmtree(path, ignore_errors=True)
