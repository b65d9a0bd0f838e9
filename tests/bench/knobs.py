"""What a knob does: cores, file size, range size; each alone, on the run that everything is compared on."""

import os
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from tests.bench.mix_data import objects_of
from tests.bench.runs import CAPTURE, run_measured
from tests.bench.workspace import ROOT, Row, Workspace

LIMITS = {
    "file_bytes": ("32MiB", "128MiB", "256MiB", "1GiB"),
    "range_bytes": ("8MiB", "32MiB", "64MiB", "256MiB"),
}


def measure(space: Workspace) -> Sequence[Row]:
    """The codec is a knob too; `onceover` has measured that."""
    capture = space.capture(space.volume.compared)
    times = space.volume.slow_times
    limits = [(name, value) for name, values in LIMITS.items() for value in values]
    return [
        *(space.best(partial(_cores, capture, slots), 1) for slots in range(1, (os.cpu_count() or 1) + 1)),
        *(space.best(partial(_limit, space, capture, *knob), times) for knob in limits),
    ]


def _limit(space: Workspace, capture: Path, name: str, value: str) -> Row:
    config = f"{CAPTURE}limits: {{{{{name}: {value}}}}}\n"
    found = run_measured(capture, space.spark, config=config, scratch=space.home / "lakes")
    return Row(
        title=name,
        data=value,
        seconds=found.seconds,
        cpu_seconds=found.cpu_seconds,
        records=found.counts["materialise"]["records"],
        bytes=sum(path.stat().st_size for path in objects_of(capture)),
        numbers={**found.numbers, "files": found.counts["materialise"]["files"]},
    )


def _cores(capture: Path, slots: int) -> Row:
    seconds, records = run_at(capture, f"local[{slots}]", 1)
    return Row(title="cores", data=str(slots), seconds=seconds, records=records)


def run_at(capture: Path, master: str, times: int) -> tuple[float, int]:
    """Seconds of the best run at a master, after a first one, and its records."""
    command = [sys.executable, "-m", "tests.bench.one_run", str(capture), master, str(times)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    seconds, records = done.stdout.split()[-2:]
    return float(seconds), int(records)
