"""`python -m tests.bench.night`: how the time of a run's steps grows with the number of batches.

Nights of 1, 4 and 16 times as many batches, each run several times in a fresh lake, the shortest time counts.
One Spark session, warm, for all.
"""

import argparse
import sys
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from pathlib import Path
from typing import Self

from rich.console import Console
from rich.table import Table

from spark_jobs.config.load import parse_settings
from spark_jobs.flow import Step
from spark_jobs.reporting.narrator import Narrator
from spark_jobs.run import run_night
from spark_jobs.spark_session import Spark, spark_for
from spark_jobs.storage.ledger import Ledger, StepLine
from spark_jobs.storage.stores import open_lake
from tests.bench.night_data import Night, write_night

ROOT = Path(__file__).parents[2]
CONFIG = """
lake: {lake}
sources:
  - {{name: gateway, kind: capture, root: capture, dates: "dt=%Y-%m-%d", immutable: true}}
"""
DAY = date(2024, 5, 1)
FACTORS = (1, 4, 16)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One night: what it held, how long its steps took, and the most that one worker held."""

    batches: int
    size: int
    seconds: dict[Step, float]
    worker_megabytes: int


def measure(directory: Path, night: Night, until: Step, spark: Spark | None = None) -> Measured:
    """Run `night` in a fresh lake below `directory`."""
    size = write_night(directory / "capture", night)
    with tempfile.TemporaryDirectory(prefix="lake-", dir=directory) as lake, WorkerMemory() as memory:
        settings = parse_settings(CONFIG.format(lake=lake), name="bench.yaml", base=directory)
        outcome = run_night(
            settings, DAY, until=until, spark=spark or spark_for(settings.spark), narrator=Narrator()
        )
        line = Ledger(open_lake(settings)).read(outcome.run_id)
    assert line is not None
    seconds = {step.step: seconds_of(step) for step in line.steps}
    return Measured(batches=night.batches, size=size, seconds=seconds, worker_megabytes=memory.megabytes)


def measure_best(directory: Path, night: Night, until: Step, times: int) -> Measured:
    """The shortest time of each step, and the most memory."""
    tries = [measure(directory, night, until) for _ in range(times)]
    return replace(
        tries[0],
        seconds={step: min(each.seconds[step] for each in tries) for step in tries[0].seconds},
        worker_megabytes=max(each.worker_megabytes for each in tries),
    )


def seconds_of(step: StepLine) -> float:
    started, finished = map(datetime.fromisoformat, (step.started_at, step.finished_at))
    return (finished - started).total_seconds()


class WorkerMemory:
    """Looks now and then at how much memory Spark's Python workers hold, and remembers the most."""

    def __init__(self) -> None:
        self.megabytes = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(0.05):
            self.megabytes = max([self.megabytes, *_worker_megabytes()])


def _worker_megabytes() -> list[int]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if b"pyspark.daemon" in (process / "cmdline").read_bytes():
                status = (process / "status").read_text()
                found.append(int(status.partition("VmHWM:")[2].split()[0]) // 1024)
        except (OSError, IndexError):
            continue  # it has ended meanwhile
    return found


def table(measured: Sequence[Measured]) -> Table:
    """A line per night; the last column of each step is its time by that of the first night, per batch."""
    steps = list(measured[0].seconds)
    shown = Table(title="Time by number of batches")
    for name in ("batches", "MB", *steps, *(f"{step}, per batch" for step in steps), "worker MB"):
        shown.add_column(name, justify="right")
    first = measured[0]
    for each in measured:
        growth = [each.seconds[step] / each.batches / (first.seconds[step] / first.batches) for step in steps]
        shown.add_row(
            f"{each.batches:,}",
            f"{each.size / 1e6:,.0f}",
            *(f"{each.seconds[step]:.1f} s" for step in steps),
            *(f"{factor:.2f}x" for factor in growth),
            f"{each.worker_megabytes:,}",
        )
    return shown


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batches", type=int, default=3_000_000, help="batches of the first night")
    parser.add_argument("--times", type=int, default=3, help="how often each night is run")
    parser.add_argument("--until", type=Step, default=Step.INDEX, help="the last step to measure")
    parser.add_argument("--data", type=Path, default=ROOT / ".cache" / "bench" / "night")
    chosen = parser.parse_args(arguments)
    measure(chosen.data / "warm", Night(batches=1600), chosen.until)
    nights = [Night(batches=chosen.batches * factor) for factor in FACTORS]
    found = [
        measure_best(chosen.data / f"{night.batches}", night, chosen.until, chosen.times) for night in nights
    ]
    Console(width=None if sys.stdout.isatty() else 140).print(table(found))


if __name__ == "__main__":
    main()
