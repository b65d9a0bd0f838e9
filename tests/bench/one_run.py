"""`python -m tests.bench.one_run CAPTURE MASTER TIMES`: a run in a session of its own at that master."""

import sys
from pathlib import Path

from spark_jobs.execution.spark import Spark
from tests.bench.runs import run_measured


def main(capture: Path, master: str, times: int) -> None:
    spark = Spark(master, {"spark.driver.memory": "2g"})
    scratch = capture.parent / "lakes"
    runs = [run_measured(capture, spark, scratch=scratch) for _ in range(times + 1)]
    spark.stop()
    print(min(run.seconds for run in runs[1:]), runs[-1].counts["materialise"]["records"])


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
