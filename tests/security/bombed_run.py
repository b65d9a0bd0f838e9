"""A run among whose batches are bombs, in a process whose memory is measured.

Prints JSON: the counts of the steps, the quarantined batches with their reasons, the peak memory in MiB.
"""

import json
import resource
import sys
from pathlib import Path

import pyarrow.parquet as pq
from rich.console import Console

from spark_jobs.flow import Step
from spark_jobs.progress import RunProgress
from spark_jobs.run import execute_run
from tests.in_process import InProcess
from tests.pipeline.batches import batch
from tests.pipeline.runs import CAPTURE, day, place_at
from tests.security.bombs import bombs

CONFIG = CAPTURE + "limits: {decompressed_bytes_per_batch: 32MiB}\n"
COLUMNS = ("producer_id", "verdict", "reason")


def main(directory: Path, *, bombed: bool) -> None:
    place = place_at(directory, CONFIG)
    for number, (name, data) in enumerate(bombs().items()):
        around = batch(0, pid=1) + (data if bombed else b"") + batch(1, pid=1)
        place.arrive(f"dt=2024-05-01/orders-{number}/{name}", around)
    progress = RunProgress(Console(quiet=True))
    outcome = execute_run(
        place.settings, day(1), until=Step.MATERIALISE, spark=InProcess(), progress=progress
    )
    found = directory.glob(f"lake/runs/{outcome.run_id}/materialise/quarantine/*.parquet")
    quarantined = [row for file in found for row in pq.read_table(file).select(COLUMNS).to_pylist()]
    reported = {
        "counts": {done.step: done.counts for done in outcome.done},
        "quarantined": quarantined,
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }
    print(json.dumps(reported))


if __name__ == "__main__":
    main(Path(sys.argv[1]), bombed=sys.argv[2] == "bombed")
