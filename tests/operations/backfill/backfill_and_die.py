"""Backfills in processes that die: each when it has changed some tables, or at a chosen write to the lake.

`catalog CONFIG` starts the backfill of the second of May again and again; the first dies when it has changed
a table, each later one changes two more, and the last one survives. The output counts the dead. `lake` reads
lines as `admit_and_die` does.
"""

import os
import re
import signal
import sys
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest.mock import patch

from pyiceberg.catalog.sql import SqlCatalog

from spark_jobs.config.load import load_settings
from spark_jobs.flow import Step, steps_until
from spark_jobs.lake import stores
from tests.operations.backfill.lakes import backfill
from tests.pipeline.admit_and_die import DyingStore
from tests.pipeline.runs import Place


def die_after_commits(count: int) -> None:
    commit, left = SqlCatalog.commit_table, [count]

    def counted(*arguments: Any) -> Any:
        answer = commit(*arguments)
        left[0] -= 1
        if not left[0]:
            os.kill(os.getpid(), signal.SIGKILL)
        return answer

    patch.object(SqlCatalog, "commit_table", counted).start()


def die_at_tables(config: Path) -> int:
    """Returns how many processes died; they are forked, so that libraries are loaded once."""
    for step in steps_until(Step.PUBLISH):
        import_module(f"spark_jobs.pipeline.{step}.step")
    place, died = Place(config.parent, load_settings(config)), 0
    while True:
        child = os.fork()
        if child == 0:
            die_after_commits(1 + 2 * died)
            backfill(place, 2, until=Step.PUBLISH)
            os._exit(0)
        if os.waitpid(child, 0)[1] == 0:
            return died
        died += 1


def die_at_a_write(line: str) -> None:
    config, pattern, number, moment = line.split()
    DyingStore.pattern, DyingStore.number, DyingStore.moment = re.compile(pattern), int(number), moment
    file = Path(config)
    backfill(Place(file.parent, load_settings(file)), 2)


def main(what: str, *config: str) -> None:
    if what == "catalog":
        print(die_at_tables(Path(*config)))
        return
    vars(stores)["FileStore"] = DyingStore
    die_at_a_write(sys.stdin.readline())
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            die_at_a_write(line)
            os._exit(0)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
