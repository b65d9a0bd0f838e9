"""`python -m tests.bench.admit`: how judging a night grows with its batches, in time and in memory.

Nights of 1, 4 and 16 times as many batches, header-only in size, up to `admit`, one after the other in one
warm Spark session. Printed are the steps' times, the growth per batch, and the most memory that a worker and
the driver (its Python and its JVM) held.
"""

import argparse
import os
import resource
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from rich.console import Console
from rich.table import Table

from spark_jobs.flow import Step
from tests.bench.night import FACTORS, ROOT, Measured, measure_best
from tests.bench.night_data import Night

UNITS = {"K": 10**3, "M": 10**6}
STEPS = (Step.INDEX, Step.REBUILD, Step.ADMIT)


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmitMeasured:
    """One night, and what its driver held in the end, in MB."""

    night: Measured
    python_megabytes: int
    jvm_megabytes: int


def count(text: str) -> int:
    """`3M` is 3,000,000."""
    unit = UNITS.get(text[-1:].upper(), 1)
    return int(text if unit == 1 else text[:-1]) * unit


def jvm_megabytes() -> int:
    """The most that a JVM below this process has held so far."""
    found = [0]
    for process in Path("/proc").glob("[0-9]*"):
        try:
            status = (process / "status").read_text()
        except OSError:
            continue  # it has ended meanwhile
        if "\nName:\tjava" in f"\n{status}" and f"PPid:\t{os.getpid()}\n" in status:
            found.append(int(status.partition("VmHWM:")[2].split()[0]) // 1024)
    return max(found)


class JvmMemory:
    """Looks now and then at the driver's JVM, and remembers the most."""

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
        while not self._stop.wait(1):
            self.megabytes = max(self.megabytes, jvm_megabytes())


def measure_admit(directory: Path, night: Night, times: int = 1) -> AdmitMeasured:
    """Run `night` up to `admit` so many times, each in a fresh lake; the shortest counts."""
    with JvmMemory() as jvm:
        found = measure_best(directory, night, Step.ADMIT, times)
    held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return AdmitMeasured(night=found, python_megabytes=held, jvm_megabytes=jvm.megabytes)


def table(measured: Sequence[AdmitMeasured]) -> Table:
    """A line per night; growth is time per batch by that of the first night."""
    shown = Table(title="Judging a night by its number of batches")
    for name in ("batches", *STEPS, "admit, per batch", "batches/s", "worker MB", "driver MB", "JVM MB"):
        shown.add_column(name, justify="right")
    first = measured[0].night
    for each in measured:
        seconds, batches = each.night.seconds, each.night.batches
        growth = seconds[Step.ADMIT] / batches / (first.seconds[Step.ADMIT] / first.batches)
        shown.add_row(
            f"{batches:,}",
            *(f"{seconds[step]:.1f} s" for step in STEPS),
            f"{growth:.2f}x",
            f"{batches / seconds[Step.ADMIT]:,.0f}",
            f"{each.night.worker_megabytes:,}",
            f"{each.python_megabytes:,}",
            f"{each.jvm_megabytes:,}",
        )
    return shown


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batches", type=count, default=3_000_000, help="of the first night, such as 3M")
    parser.add_argument("--partitions", type=int, default=8)
    parser.add_argument("--producers", type=int, default=1000, help="on every partition")
    parser.add_argument("--times", type=int, default=2, help="how often each night is run")
    parser.add_argument("--data", type=Path, default=ROOT / ".cache" / "bench" / "admit")
    chosen = parser.parse_args(arguments)
    measure_admit(chosen.data / "warm", Night(batches=1600))
    nights = [
        Night(batches=chosen.batches * factor, partitions=chosen.partitions, producers=chosen.producers)
        for factor in FACTORS
    ]
    found = [
        measure_admit(
            chosen.data / f"{night.batches}-{night.partitions}-{night.producers}", night, chosen.times
        )
        for night in nights
    ]
    Console(width=None if sys.stdout.isatty() else 140).print(table(found))


if __name__ == "__main__":
    main()
