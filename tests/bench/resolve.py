"""`python -m tests.bench.resolve`: how resolving a night grows with its transactions, in time and in memory.

Nights of 1, 4 and 16 times as many transactions, each of 50 batches on two partitions, from a broker's log
directory up to `resolve`, one after the other in one warm Spark session.
"""

import argparse
import resource
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from spark_jobs.config.load import parse_settings
from spark_jobs.flow import Step
from spark_jobs.reporting.narrator import Narrator
from spark_jobs.run import run_night
from spark_jobs.spark_session import Spark, spark_for
from spark_jobs.storage.ledger import Ledger
from spark_jobs.storage.stores import open_lake
from tests.bench.admit import JvmMemory, count
from tests.bench.night import DAY, FACTORS, ROOT, WorkerMemory, seconds_of
from tests.bench.resolve_data import Transactions, write_transactions

CONFIG = """
lake: {lake}
sources:
  - {{name: broker, kind: broker-log, root: broker, immutable: true}}
"""
STEPS = (Step.INDEX, Step.REBUILD, Step.ADMIT, Step.RESOLVE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """One night: how long its steps took, and the most memory of a worker, the driver and its JVM, in MB."""

    transactions: int
    batches: int
    seconds: dict[Step, float]
    counts: dict[str, int]
    worker_megabytes: int
    python_megabytes: int
    jvm_megabytes: int


def measure(directory: Path, night: Transactions, spark: Spark | None = None) -> Resolved:
    """Run `night` in a fresh lake below `directory`."""
    batches = write_transactions(directory / "broker", night)
    with (
        tempfile.TemporaryDirectory(prefix="lake-", dir=directory) as lake,
        WorkerMemory() as workers,
        JvmMemory() as jvm,
    ):
        settings = parse_settings(CONFIG.format(lake=lake), name="bench.yaml", base=directory)
        spark = spark or spark_for(settings.spark)
        outcome = run_night(settings, DAY, until=Step.RESOLVE, spark=spark, narrator=Narrator())
        line = Ledger(open_lake(settings)).read(outcome.run_id)
    assert line is not None
    return Resolved(
        transactions=night.rounds * night.producers,
        batches=batches,
        seconds={step.step: seconds_of(step) for step in line.steps},
        counts=outcome.done[-1].counts,
        worker_megabytes=workers.megabytes,
        python_megabytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        jvm_megabytes=jvm.megabytes,
    )


def table(measured: Sequence[Resolved]) -> Table:
    """A line per night; growth is time per transaction by that of the first night."""
    shown = Table(title="Resolving a night by its number of transactions")
    growths = (f"{Step.REBUILD}, growth", f"{Step.RESOLVE}, growth")
    for name in (
        "transactions",
        "batches",
        *STEPS,
        *growths,
        "transactions/s",
        "worker MB",
        "driver MB",
        "JVM MB",
    ):
        shown.add_column(name, justify="right")
    first = measured[0]
    for each in measured:
        shown.add_row(
            f"{each.transactions:,}",
            f"{each.batches:,}",
            *(f"{each.seconds[step]:.1f} s" for step in STEPS),
            *(f"{_growth(each, first, step):.2f}x" for step in (Step.REBUILD, Step.RESOLVE)),
            f"{each.transactions / each.seconds[Step.RESOLVE]:,.0f}",
            f"{each.worker_megabytes:,}",
            f"{each.python_megabytes:,}",
            f"{each.jvm_megabytes:,}",
        )
    return shown


def _growth(each: Resolved, first: Resolved, step: Step) -> float:
    return each.seconds[step] / each.transactions / (first.seconds[step] / first.transactions)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--transactions", type=count, default=62_500, help="of the first night, such as 62K")
    parser.add_argument("--data", type=Path, default=ROOT / ".cache" / "bench" / "resolve")
    chosen = parser.parse_args(arguments)
    measure(chosen.data / "warm", Transactions(transactions=2000, producers=100, batches=4))
    found = []
    for factor in FACTORS:
        night = Transactions(transactions=chosen.transactions * factor)
        found.append(measure(chosen.data / f"{night.transactions}", night))
    Console(width=None if sys.stdout.isatty() else 160).print(table(found))


if __name__ == "__main__":
    main()
