"""`python -m tests.bench.small_rounds [TIMES]`: `resolve` of the sample, in the driver and by Spark.

Both in turn in one session that is up, `local[2]`; the first of each warms up and does not count.
"""

import os
import sys
import tempfile
import time
from pathlib import Path
from unittest.mock import patch

from rich.console import Console

from spark_jobs.config.load import load_settings
from spark_jobs.config.settings import Settings
from spark_jobs.execution.spark import Spark
from spark_jobs.flow import Step
from spark_jobs.pipeline.resolve.phases import Phases
from spark_jobs.progress import RunProgress
from spark_jobs.run import execute_run
from spark_jobs.sample.files import CONFIG, write_sample
from spark_jobs.sample.story import RUN_DATES


def main(times: int) -> None:
    spark = Spark("local[2]", {"spark.driver.memory": "1g"})
    found: dict[str, list[float]] = {"in the driver": [], "by Spark": []}
    for _ in range(times + 1):
        for name, seconds in found.items():
            seconds.append(_resolve(spark, in_driver=name == "in the driver"))
    spark.stop()
    for name, seconds in found.items():
        print(f"{name}: {min(seconds[1:]):.2f} to {max(seconds[1:]):.2f} s")
    print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores")


def _resolve(spark: Spark, *, in_driver: bool) -> float:
    """Seconds of the step, after all steps before it."""
    with tempfile.TemporaryDirectory() as place:
        write_sample(Path(place))
        settings = load_settings(Path(place) / CONFIG)
        _run(settings, spark, Step.ADMIT)
        with patch.object(Phases, "_is_small", lambda *_: in_driver):
            began = time.perf_counter()
            _run(settings, spark, Step.RESOLVE)
            return time.perf_counter() - began


def _run(settings: Settings, spark: Spark, until: Step) -> None:
    quiet = RunProgress(Console(quiet=True))
    execute_run(settings, RUN_DATES[0], until=until, spark=spark, progress=quiet, more_steps_follow=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 7)
