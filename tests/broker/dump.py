"""`kafka-dump-log`, and what it complains about."""

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.broker.judge import java_command

DUMPED = {".log", ".snapshot", ".txnindex"}
COORDINATOR = "__transaction_state-*"
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


def write_dumps(data: Path, to: Path) -> None:
    """What it prints about every partition of users and of the transaction coordinator, a file for each."""
    to.mkdir()
    for pattern, options in (("[!_]*-*", ["--print-data-log"]), (COORDINATOR, ["--transaction-log-decoder"])):
        files = [path for path in sorted(data.glob(f"{pattern}/*")) if path.suffix in DUMPED]
        printed: dict[str, str] = {}
        for part in re.split(r"^(?=Dumping )", dump(files, *options), flags=re.MULTILINE)[1:]:
            name = Path(part.partition("\n")[0].removeprefix("Dumping ")).parent.name
            printed[name] = printed.get(name, "") + part
        for name, text in printed.items():
            (to / f"{name}.txt").write_text(text)
