"""Spark without Spark: tasks run in this process, one after the other."""

import pickle
from collections.abc import Callable, Sequence

from spark_jobs.spark_session import Spark, Summary, Task, Watch


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
        here: bool = False,
    ) -> list[Summary]:
        return [pickle.loads(pickle.dumps(function(pickle.loads(pickle.dumps(task))))) for task in tasks]
