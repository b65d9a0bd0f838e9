"""Options of `spark.conf` reach Spark: its event log has every job with the description it was given."""

import subprocess
import sys
from pathlib import Path

DRIVER = """
import sys
from spark_jobs.config.settings import SparkSettings
from spark_jobs.execution.spark import spark_for

conf = {
    "spark.eventLog.enabled": "true",
    "spark.eventLog.dir": f"file://{sys.argv[1]}",
    "spark.eventLog.compress": "false",
}
spark = spark_for(SparkSettings(master="local[1]", conf=conf))
spark.run_tasks(len, ["a", "bc"], description="onceover 2026-03-02-1f0c index index bins")
spark.stop()
"""


def test_the_event_log_shows_what_a_job_did(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", DRIVER, str(tmp_path)], check=True, capture_output=True)

    logs = [path for path in tmp_path.rglob("*") if path.is_file()]
    starts = [
        line for path in logs for line in path.read_text().splitlines() if "SparkListenerJobStart" in line
    ]
    assert starts
    assert all(
        '"spark.job.description":"onceover 2026-03-02-1f0c index index bins"' in line for line in starts
    )
