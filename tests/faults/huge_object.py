"""A run with an object larger than the memory that this process may use; prints the counts of its steps."""

import json
import os
import re
import resource
import sys
from pathlib import Path

import pyarrow as pa
from rich.console import Console

from spark_jobs.flow import Step
from spark_jobs.progress import RunProgress
from spark_jobs.run import execute_run
from tests.in_process import InProcess
from tests.pipeline.batches import batch
from tests.pipeline.runs import CAPTURE, Place, day, place_at

MIB = 1 << 20
HUGE_BYTES, SPARE_BYTES = 768 * MIB, 320 * MIB
THREADS = 2
"""However many cores there are: every thread has a stack, which counts."""
CONFIG = CAPTURE + "    immutable: true\nlimits: {range_bytes: 16MiB}\n"


def _run(place: Place, number: int) -> dict[str, dict[str, int]]:
    progress = RunProgress(Console(quiet=True))
    outcome = execute_run(
        place.settings, day(number), until=Step.MATERIALISE, spark=InProcess(), progress=progress
    )
    return {done.step: dict(done.counts) for done in outcome.done}


def main(directory: Path) -> None:
    pa.set_cpu_count(THREADS)
    pa.set_io_thread_count(THREADS)
    place = place_at(directory, CONFIG)
    place.arrive("dt=2024-05-01/orders-0/small", batch(0))
    _run(place, 1)
    huge = place.arrive("dt=2024-05-02/orders-0/huge", batch(1))
    os.truncate(huge, HUGE_BYTES)
    place.arrive("dt=2024-05-02/orders-0/later", batch(2))
    [used] = re.findall(r"VmData:\s+(\d+) kB", Path("/proc/self/status").read_text())
    most = int(used) * 1024 + SPARE_BYTES
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    print(json.dumps(_run(place, 2)))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
