"""How time and memory grow: runs of 1, 4 and 16 times as much of one thing, in one warm session."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from spark_jobs.flow import Step
from spark_jobs.kafka.formats.record_batch import Codec
from tests.bench.resolve_data import Transactions, write_transactions
from tests.bench.run_data import Run, write_run
from tests.bench.runs import BROKER_LOG, CAPTURE, run_measured
from tests.bench.workspace import Row, Workspace

BATCHES = 50
"""Of a transaction: 50 million at a million transactions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """One thing that grows; `most` is what the last factor comes to."""

    name: str
    most: int
    least: int
    until: Step
    config: str
    write: Callable[[Workspace, Path, int], Path]
    """(space, folder, how much) → the source's root."""
    is_largest_only: bool = False
    """Whether it is measured only at the last factor, beside an axis whose name begins its own."""


def measure(space: Workspace) -> Sequence[Row]:
    """Every axis, the small runs first, so that the most memory so far is that of the run."""
    return [row for axis in AXES for row in measure_axis(space, axis)]


def measure_axis(space: Workspace, axis: Axis) -> list[Row]:
    """A row per run; the first is run once more, for whatever comes up only once.

    The others run once, which can only make growth look worse than it is.
    """
    largest = space.volume.factors[-1]
    most = max(int(axis.most * space.volume.growth), axis.least * largest)
    amounts = [most * factor // largest for factor in space.volume.factors]
    if axis.is_largest_only:
        return [space.best(partial(_run, space, axis, most), space.volume.slow_times)]
    return [
        space.best(partial(_run, space, axis, amount), space.volume.slow_times + (amount == amounts[0]))
        for amount in amounts
    ]


def _run(space: Workspace, axis: Axis, amount: int) -> Row:
    source = axis.write(space, space.home / "growth" / axis.name.replace(", ", "-") / str(amount), amount)
    found = run_measured(
        source, space.spark, until=axis.until, config=axis.config, scratch=space.home / "lakes"
    )
    return Row(
        title=axis.name,
        data=f"{amount}",
        seconds=found.seconds,
        cpu_seconds=found.cpu_seconds,
        numbers={"amount": amount, **found.numbers},
    )


def _records(space: Workspace, _: Path, amount: int) -> Path:
    return space.capture(Codec.LZ4, amount)


def _batches(_: Workspace, folder: Path, amount: int) -> Path:
    write_run(folder, Run(batches=amount))
    return folder


def _producers(_: Workspace, folder: Path, amount: int) -> Path:
    write_run(folder, Run(batches=4 * amount, partitions=1, producers=amount))
    return folder


def _transactions(_: Workspace, folder: Path, amount: int) -> Path:
    place = folder / f"of-{BATCHES}"
    write_transactions(place, Transactions(transactions=amount, batches=BATCHES))
    return place


def _skewed_transactions(_: Workspace, folder: Path, amount: int) -> Path:
    """As many batches in all; those of the one producer have two each."""
    place, heavy = folder / f"of-{BATCHES}", amount // 3
    batches = (BATCHES * amount - 2 * heavy) // (amount - heavy)
    write_transactions(place, Transactions(transactions=amount - heavy, batches=batches, heavy=heavy))
    return place


def _partitions(_: Workspace, folder: Path, amount: int) -> Path:
    write_run(folder, Run(batches=10 * amount, partitions=amount, producers=5, objects_per_partition=1))
    return folder


def _files(_: Workspace, folder: Path, amount: int) -> Path:
    per_partition = amount // 8
    run = Run(batches=10 * 8 * per_partition, producers=5, objects_per_partition=per_partition)
    write_run(folder, run)
    return folder


AXES = (
    Axis(name="records", most=10_000_000, least=10_000, until=Step.PUBLISH, config=CAPTURE, write=_records),
    Axis(name="batches", most=50_000_000, least=1600, until=Step.ADMIT, config=CAPTURE, write=_batches),
    Axis(name="producers", most=1_000_000, least=200, until=Step.ADMIT, config=CAPTURE, write=_producers),
    Axis(
        name="transactions",
        most=1_000_000,
        least=1000,
        until=Step.RESOLVE,
        config=BROKER_LOG,
        write=_transactions,
    ),
    Axis(
        name="transactions, a third by one producer",
        most=1_000_000,
        least=1000,
        until=Step.RESOLVE,
        config=BROKER_LOG,
        write=_skewed_transactions,
        is_largest_only=True,
    ),
    Axis(name="partitions", most=2000, least=8, until=Step.PUBLISH, config=CAPTURE, write=_partitions),
    Axis(name="files", most=20_000, least=16, until=Step.PUBLISH, config=CAPTURE, write=_files),
)
