"""Runs runs of the sample in processes of their own, as often as asked, each with one fault.

Every line of the input is a request, every line of the output its answer, both JSON. Processes are forked
from this one, which has run both runs once: starting Python and its libraries takes most of the time.
To try every moment of a run, one run of it leaves a copy of its lake before each change ("left"): that is
all that a process killed there would have left, so the killed half of each trial is done once for all.
"""

import json
import os
import shutil
import signal
import sys
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from datetime import date
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rich.console import Console

from spark_jobs.config.load import load_settings
from spark_jobs.config.settings import Settings
from spark_jobs.flow import STEPS
from spark_jobs.kafka.errors import OnceoverError
from spark_jobs.lake.stores import open_store
from spark_jobs.progress import RunProgress
from spark_jobs.run import execute_run
from spark_jobs.sample.files import CONFIG, write_sample
from spark_jobs.sample.story import RUN_DATES
from tests.faults.lake_contents import differences, lake_contents
from tests.faults.moments import copy_of
from tests.faults.writes import Writes, die, fill_up, watch
from tests.in_process import InProcess

LAST = [step for step in STEPS if find_spec(f"spark_jobs.pipeline.{step}.step")][-1]
FAILED = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Run 0 or 1, and what happens in it at the change of number `at`, or after `at` ms for `kill`.

    `left` continues with what a process that ended before change `at` has left.
    """

    run: int
    fault: str
    at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """How the disturbed run ended, what it said, and in what the repeated one differs from an undisturbed."""

    ended: int
    said: str
    again: str
    different: list[str] = field(default_factory=list)


class Runs:
    """The sample's two runs in one place; before each request the lake is as it was before the run."""

    def __init__(self, place: Path) -> None:
        self._place = place
        write_sample(place / "sample")
        self._settings = _one_change_at_a_time(load_settings(place / "sample" / CONFIG))
        self._lake = Path(self._settings.lake)
        self.changes: list[list[str]] = []
        self._expected = [self._undisturbed(number) for number in range(len(RUN_DATES))]

    def answer(self, request: Request) -> Answer:
        run, said = RUN_DATES[request.run], self._place / "said"
        ended = self._left(request) if request.fault == "left" else self._disturbed(request, said)
        reported = said.read_text()
        forked(lambda: attempt(self._settings, run), said)
        different = differences(self._expected[request.run], lake_contents(self._settings))
        return Answer(ended=ended, said=reported, again=said.read_text(), different=different)

    def _disturbed(self, request: Request, said: Path) -> int:
        self._restore(request.run)
        return forked(lambda: attempt(self._settings, RUN_DATES[request.run], _fault(request)), said)

    def _left(self, request: Request) -> int:
        """The lake as it was before a change, in a run whose process is gone."""
        moments = self._place / f"moments-{request.run}"
        if not moments.exists():
            self._leave(request.run, moments)
        shutil.rmtree(self._lake)
        (moments / str(request.at)).rename(self._lake)
        return -signal.SIGKILL

    def _leave(self, number: int, moments: Path) -> None:
        def install() -> None:
            WRITES.at = lambda change: copy_of(self._lake, moments / str(change))

        self._restore(number)
        moments.mkdir()
        ended = forked(lambda: attempt(self._settings, RUN_DATES[number], install), self._place / "said")
        assert ended == 0, (self._place / "said").read_text()

    def _undisturbed(self, number: int) -> dict[str, str]:
        if number:
            shutil.copytree(self._lake, self._base(number))
        else:
            self._base(number).mkdir()
        WRITES.names = []
        _run(self._settings, RUN_DATES[number])
        self.changes.append(list(WRITES.names))
        return lake_contents(self._settings)

    def _base(self, number: int) -> Path:
        return self._place / f"before-{number}"

    def _restore(self, number: int) -> None:
        shutil.rmtree(self._lake)
        shutil.copytree(self._base(number), self._lake)


WRITES = Writes()


def _one_change_at_a_time(settings: Settings) -> Settings:
    """So that the changes of a run have numbers; a killed staging of many threads is tried elsewhere."""
    return settings.model_copy(update={"limits": settings.limits.model_copy(update={"stage_threads": 1})})


def _fault(request: Request) -> Callable[[], None]:
    def install() -> None:
        if request.fault == "kill":
            signal.setitimer(signal.ITIMER_REAL, request.at / 1000)
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
        else:
            WRITES.at = {"die": die, "full": fill_up}[request.fault](request.at)

    return install


def attempt(settings: Settings, run: date, install: Callable[[], None] | None = None) -> int:
    open_store.cache_clear()  # the lake is another one than this process knew
    WRITES.names, WRITES.at = [], lambda number: None
    if install is not None:
        install()
    try:
        _run(settings, run)
    except OnceoverError as error:
        print(f"{type(error).__name__}: {error}")
        return FAILED
    return 0


def _run(settings: Settings, run: date) -> None:
    execute_run(settings, run, until=LAST, spark=InProcess(), progress=RunProgress(Console(quiet=True)))


def forked(work: Callable[[], int], output: Path) -> int:
    """How a process ended that did `work`: its exit code, or its signal as a negative number."""
    child = os.fork()
    if child == 0:
        with output.open("w") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
            code = 1
            try:
                code = work()
            except Exception:  # noqa: BLE001 -- what is no error of ours ends here, and is shown
                traceback.print_exc(file=sys.stdout)
            finally:
                sys.stdout.flush()
                os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def main(place: Path) -> None:
    runs = Runs(place)
    _say({"changes": runs.changes})
    for line in sys.stdin:
        _say(asdict(runs.answer(Request(**json.loads(line)))))


def _say(what: dict[str, Any]) -> None:
    print(json.dumps(what), flush=True)


if __name__ == "__main__":
    watch(WRITES)
    main(Path(sys.argv[1]))
