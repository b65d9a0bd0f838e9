"""Spark without Spark: tasks run in this process, one after the other."""

import pickle
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from spark_jobs.execution.python_worker import Summary, Task
from spark_jobs.execution.shuffle import Rows, Shuffled, TaskRows, shuffle_in_driver
from spark_jobs.execution.spark import Spark, Watch


class InProcess(Spark):
    """Runs tasks here; what travels to workers and back is pickled all the same."""

    @property
    def parallelism(self) -> int:
        return 2

    def run_tasks(
        self,
        function: Callable[[Task], Summary],
        tasks: Sequence[Task],
        *,
        watch: Watch = lambda _: None,
        in_driver: bool = False,
        description: str = "",
    ) -> list[Summary]:
        return [pickle.loads(pickle.dumps(function(pickle.loads(pickle.dumps(task))))) for task in tasks]

    def shuffle(
        self,
        sides: Sequence[Rows],
        *,
        key: str,
        function: Callable[..., Summary],
        watch: Watch = lambda _: None,
        in_driver: bool = False,
        description: str = "",
    ) -> Shuffled[Summary]:
        """Everything pickled as for workers, and rows of a group in another order than they were yielded."""
        plan = pickle.loads(pickle.dumps(tuple(map(_reversed, sides))))
        last = partial(_with_rows_reversed, pickle.loads(pickle.dumps(function)))
        found: Shuffled[Summary] = pickle.loads(pickle.dumps(shuffle_in_driver(plan, key=key, function=last)))
        return found


def _reversed(rows: Rows) -> Rows:
    if isinstance(rows, TaskRows):
        return rows
    function = partial(_with_rows_reversed, rows.function)
    return replace(rows, sides=tuple(map(_reversed, rows.sides)), function=function)


def _with_rows_reversed(function: Callable[..., Summary], key: Any, *groups: pa.Table) -> Summary:
    return function(key, *(group.take(np.arange(group.num_rows)[::-1].copy()) for group in groups))
