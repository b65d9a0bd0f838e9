"""Tasks whose first attempt takes longer than any test waits, or comes back after its round has ended."""

import pickle
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa

import spark_jobs.execution.python_worker
from spark_jobs.pipeline.index.job import BinSummary
from spark_jobs.pipeline.index.worker import IndexTask, index_bins

HOURS = 36_000
SECONDS_BETWEEN_LOOKS = 0.05
SECONDS_OF_A_LATE_ATTEMPT = 300
"""How long one lives without a call: it is no process of Spark's, so nothing else ends it."""
ODD = "odd"
"""A topic whose batches no worker guesses."""
ATTEMPTS = "attempts"
"""A folder beside the lake: what attempts write down for one another."""


def attempt(task: tuple[int, str]) -> tuple[int, bool, str]:
    """Number, whether this is the first attempt, and which package the worker has."""
    number, directory = task
    is_first = _is_first(Path(directory) / f"{number}.started")
    if number == 0 and is_first:
        time.sleep(HOURS)
    (Path(directory) / f"{number}.result").write_text(str(number))
    return number, is_first, str(Path(spark_jobs.execution.python_worker.__file__).resolve())


ROWS = pa.schema({"number": pa.int64()})


def rows_late(task: tuple[int, str]) -> Iterator[pa.Table]:
    """The number as a row of a shuffle; the first attempt of number 0 never yields it."""
    number, directory = task
    if _is_first(Path(directory) / f"{number}.shuffled") and number == 0:
        time.sleep(HOURS)
    yield pa.table({"number": [number]}, ROWS)


def rows_of(number: int, rows: pa.Table) -> tuple[int, int]:
    """How many rows a group has."""
    return number, rows.num_rows


def _is_first(mark: Path) -> bool:
    try:
        mark.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def index_bins_late(task: IndexTask) -> tuple[BinSummary, ...]:
    """`index_bins`; the first attempt to guess boundaries of `ODD` leaves the work to a process that waits.

    Spark ends the attempt once a second one has a result. The process is on its own, like a worker on a host
    that Spark has lost: it does the same work when the test calls it.
    """
    attempts = attempts_beside(task.lake.url)
    odd = [each for each in task.bins if each.copy.partition.topic == ODD]
    has_guess = any(piece.boundary is None for each in odd for piece in each.pieces)
    if has_guess and _is_first(attempts / "started"):
        (attempts / "task").write_bytes(pickle.dumps(task))
        command = [sys.executable, "-m", "tests.faults.delayed", str(attempts)]
        subprocess.Popen(command, start_new_session=True)
        time.sleep(HOURS)
    return index_bins(task)


def attempts_beside(lake: str) -> Path:
    """The folder of the attempts of this lake."""
    return Path(lake).parent / ATTEMPTS


def call_late_attempt(attempts: Path, call: str) -> None:
    """Lets the late attempt do its work once; returns when it has."""
    (attempts / f"{call}.called").touch()
    _wait_for(attempts / f"{call}.done")


def _work_when_called(attempts: Path, calls: tuple[str, ...], work: Callable[[], object]) -> None:
    for call in calls:
        _wait_for(attempts / f"{call}.called")
        work()
        (attempts / f"{call}.done").touch()


def _wait_for(path: Path) -> None:
    deadline = time.monotonic() + SECONDS_OF_A_LATE_ATTEMPT
    while not path.exists():
        if time.monotonic() > deadline:
            raise TimeoutError(path)
        time.sleep(SECONDS_BETWEEN_LOOKS)


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    late: IndexTask = pickle.loads((folder / "task").read_bytes())
    _work_when_called(folder, ("same ranges", "other ranges"), lambda: index_bins(late))
