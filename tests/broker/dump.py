"""`kafka-dump-log`, and what it complains about."""

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.broker.judge import java_command

COMPLAINTS = re.compile(
    r"isvalid: false|invalid|mismatch|exception|error|corrupt|^\s*\d+ is followed by",
    re.IGNORECASE,
)


def dump(files: Sequence[Path], *options: str) -> str:
    """What kafka-dump-log prints about `files`; raises if it fails."""
    names = ",".join(str(path) for path in files)
    command = java_command("org.apache.kafka.tools.DumpLogSegments", "--files", names, *options, heap="256m")
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        raise RuntimeError(f"kafka-dump-log failed: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout + done.stderr


def complaints(printed: str) -> list[str]:
    """The lines in which it found something wrong; every segment but the first "follows" offset -1."""
    return [line for line in printed.splitlines() if COMPLAINTS.search(line)]
