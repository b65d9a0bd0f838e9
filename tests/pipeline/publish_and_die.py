"""Publishes a run in processes that die at a chosen change of the catalog.

Every line of the input names a change, counted from 1, and whether to die `before` or `after` it; every line
of the output is how that process ended. Processes are forked, since starting Python anew takes seconds.
"""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyiceberg.catalog.sql import SqlCatalog

from spark_jobs.config.load import parse_settings
from spark_jobs.lake.run_folder import RunFolder, read_inputs
from spark_jobs.lake.stores import open_lake
from spark_jobs.pipeline.publish import step as publish
from tests.in_process import InProcess
from tests.pipeline.resolved import context_of

CALLS = ("create_namespace", "commit_table")


def die_at(number: int, *, after: bool) -> None:
    """Lets this process die before or after the catalog's change of that number."""
    changes = [0]

    def dying(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            changes[0] += 1
            is_last = changes[0] == number
            if is_last and not after:
                os.kill(os.getpid(), signal.SIGKILL)
            answer = original(*arguments, **named)
            if is_last:
                os.kill(os.getpid(), signal.SIGKILL)
            return answer

        return call

    for name in CALLS:
        setattr(SqlCatalog, name, dying(getattr(SqlCatalog, name)))


def main(config: str, run_id: str) -> None:
    file = Path(config)
    settings = parse_settings(file.read_text(), name=file.name, base=file.parent)
    lake = open_lake(settings)
    context = context_of(settings, RunFolder(lake, read_inputs(lake, run_id)), InProcess())
    for line in sys.stdin:
        number, moment = line.split()
        child = os.fork()
        if child == 0:
            die_at(int(number), after=moment == "after")
            publish.run(context)
            os._exit(0)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
