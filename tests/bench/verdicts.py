"""Verdicts alone: `index` and `admit` in a fresh process on one core, beside nothing but checksums.

What both need before they begin, libraries and compiled code, is loaded before and counted apart.

`python -m tests.bench.verdicts SOURCE KIND` is such a process; it prints what it measured as JSON.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.bench.run_data import Run, write_run
from tests.bench.workspace import ROOT, Row, Workspace

WINDOW_BYTES = 4 * 2**20
ONE_RECORD_BATCHES = 12_000_000


def measure(space: Workspace) -> Sequence[Row]:
    """The run as a broker's log, uncompressed, and a run of one-record batches."""
    from tests.bench.onceover import accepted_log

    codec = space.volume.codecs[0]
    log = accepted_log(space, codec)
    headers = space.home / "headers" / f"{_header_batches(space)}"
    write_run(headers, Run(batches=_header_batches(space)))
    return [
        space.best(lambda: _row("verdicts", f"broker-log, {codec.name.lower()}", log, "broker-log")),
        space.best(lambda: _row("verdicts", "1-record batches", headers, "capture")),
    ]


def _header_batches(space: Workspace) -> int:
    return max(int(ONE_RECORD_BATCHES * space.volume.growth), 1600)


def _row(title: str, data: str, source: Path, kind: str) -> Row:
    command = [sys.executable, "-m", "tests.bench.verdicts", str(source), kind]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    return Row(
        title=title,
        data=data,
        seconds=found["index s"] + found["admit s"],
        bytes=found.pop("bytes"),
        numbers=found,
    )


def batch_files(source: Path) -> list[Path]:
    """Logs of a broker, or objects of a capture."""
    return sorted(source.rglob("*.log")) or sorted(path for path in source.glob("dt=*/*/*") if path.is_file())


def run_here(source: Path, kind: str) -> dict[str, float]:
    """In this process, one task after the other: the clock of both steps, and that of checksums alone."""
    began = time.perf_counter()
    import google_crc32c
    import pyarrow as pa

    from spark_jobs.flow import Step, steps_until
    from spark_jobs.kernels.warm import warm
    from spark_jobs.run import prepare_step
    from tests.bench.runs import BROKER_LOG, CAPTURE, run_measured
    from tests.in_process import InProcess

    warm()
    for step in steps_until(Step.ADMIT):
        prepare_step(step)
    pa.array([""])  # loads pandas, only to ask whether this is something of its own
    loaded = time.perf_counter()
    config = {"broker-log": BROKER_LOG, "capture": CAPTURE}[kind]
    with tempfile.TemporaryDirectory(dir=source.parent) as scratch:
        run = run_measured(source, InProcess(), until=Step.ADMIT, config=config, scratch=Path(scratch))
    files = batch_files(source)
    started = time.perf_counter()
    for window in _windows(files):
        google_crc32c.value(window)
    return {
        "bytes": sum(path.stat().st_size for path in files),
        "batches": run.counts["admit"]["batches"],
        "index s": run.steps["index"],
        "admit s": run.steps["admit"],
        "crc s": time.perf_counter() - started,
        "load s": loaded - began,
    }


def _windows(files: Sequence[Path]) -> Iterator[bytes]:
    for path in files:
        with path.open("rb", buffering=0) as file:
            while window := file.read(WINDOW_BYTES):
                yield window


if __name__ == "__main__":
    print(json.dumps(run_here(Path(sys.argv[1]), sys.argv[2])))
