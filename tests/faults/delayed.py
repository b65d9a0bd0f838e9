"""A task whose first attempt takes longer than any test waits."""

import time
from pathlib import Path

import spark_jobs.execution.worker

HOURS = 36_000


def attempt(task: tuple[int, str]) -> tuple[int, bool, str]:
    """Number, whether this is the first attempt, and which package the worker has."""
    number, directory = task
    try:
        (Path(directory) / f"{number}.started").touch(exist_ok=False)
        is_first = True
    except FileExistsError:
        is_first = False
    if number == 0 and is_first:
        time.sleep(HOURS)
    (Path(directory) / f"{number}.result").write_text(str(number))
    return number, is_first, str(Path(spark_jobs.execution.worker.__file__).resolve())
