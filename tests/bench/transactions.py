"""`python -m tests.bench.transactions DIR [AMOUNT]`: `resolve` at many transactions, even and skewed.

AMOUNT transactions of 1,000 producers (a million by default), then as many of which one producer has a third.
Runs until `admit` first, so that what is measured is `resolve` alone, on two cores.
"""

import sys
import tempfile
from pathlib import Path

from spark_jobs.config.load import parse_settings
from spark_jobs.config.settings import Settings
from spark_jobs.execution.spark import Spark
from spark_jobs.flow import Step
from tests.bench.resolve_data import Transactions, write_transactions
from tests.bench.runs import BROKER_LOG, measured_run

SHOWN = ("resolve s", "worker MB", "driver MB", "JVM MB")


def main(home: Path, amount: int) -> None:
    even = Transactions(transactions=amount, batches=2)
    skewed = Transactions(transactions=amount - amount // 3, batches=2, heavy=amount // 3)
    for name, data in {"even": even, "skewed": skewed}.items():
        print(name, _measured(home, home / f"{name}-{amount}", data), flush=True)


def _measured(home: Path, source: Path, data: Transactions) -> dict[str, float]:
    """Seconds and CPU seconds of `resolve`, and the most memory, in a session of its own."""
    write_transactions(source, data)
    with tempfile.TemporaryDirectory(prefix="lake-", dir=home) as lake:
        settings = parse_settings(BROKER_LOG.format(lake=lake, source=source), name="bench.yaml", base=home)
        _run(settings, Step.ADMIT)
        return _run(settings, Step.RESOLVE)


def _run(settings: Settings, until: Step) -> dict[str, float]:
    spark = Spark("local[2]", {"spark.driver.memory": "2g"})
    found = measured_run(settings, spark, until=until)
    spark.stop()
    return {"CPU s": found.cpu_seconds, **{name: found.numbers.get(name, 0) for name in SHOWN}}


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1_000_000)
