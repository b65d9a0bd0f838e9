"""Runs a run up to `admit` in processes that die at a chosen write to the lake.

Every line of the input is a lake's directory, a pattern of keys, which write of such a key, and whether to
die `before` or `after` it; every line of the output is how that process ended. The first line is run in this
process: those that are forked from it then need not load everything anew.
"""

import os
import re
import signal
import sys
from pathlib import Path

from rich.console import Console

from spark_jobs.config.load import parse_settings
from spark_jobs.flow import Step
from spark_jobs.lake import stores
from spark_jobs.lake.file_store import FileStore
from spark_jobs.progress import RunProgress
from spark_jobs.run import execute_run
from tests.in_process import InProcess
from tests.pipeline.runs import day


class DyingStore(FileStore):
    """A directory; the process does not survive one of the writes to it."""

    pattern, number, moment = re.compile("(?!)"), 0, ""
    seen = 0

    def put(self, key: str, data: bytes, *, durable: bool = True) -> None:
        self._meet(key, "before")
        super().put(key, data, durable=durable)
        self._meet(key, "after")

    def put_if_absent(self, key: str, data: bytes) -> bool:
        self._meet(key, "before")
        is_ours = super().put_if_absent(key, data)
        self._meet(key, "after")
        return is_ours

    def adopt(self, path: Path, key: str, *, durable: bool = True) -> None:
        self._meet(key, "before")
        super().adopt(path, key, durable=durable)
        self._meet(key, "after")

    def _meet(self, key: str, moment: str) -> None:
        if moment == DyingStore.moment and DyingStore.pattern.search(key):
            DyingStore.seen += 1
            if DyingStore.seen == DyingStore.number:
                os.kill(os.getpid(), signal.SIGKILL)


def run(config: Path, line: str) -> None:
    lake, pattern, number, moment = line.split()
    DyingStore.pattern, DyingStore.number, DyingStore.moment = re.compile(pattern), int(number), moment
    text = config.read_text().replace("lake: lake", f"lake: {lake}")
    settings = parse_settings(text, name=config.name, base=config.parent)
    progress = RunProgress(Console(quiet=True))
    execute_run(settings, day(1), until=Step.ADMIT, spark=InProcess(), progress=progress)


def main(config: Path) -> None:
    vars(stores)["FileStore"] = DyingStore
    run(config, sys.stdin.readline())
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            run(config, line)
            os._exit(0)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
