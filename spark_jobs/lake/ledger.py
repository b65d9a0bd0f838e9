"""The ledger of runs, for people: when each ran, how long, and its status.

Only the ledger has wall-clock times. Nothing depends on it: the chain decides whether a run is final, and a
lost ledger loses only the times.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, date, datetime
from enum import StrEnum

from spark_jobs.config.canonical import canonical_json
from spark_jobs.flow import Step
from spark_jobs.lake.chain import Chain, EntryKind, read_chain
from spark_jobs.lake.errors import understood
from spark_jobs.lake.layout import LEDGER, ledger_key
from spark_jobs.lake.lock import current_holder
from spark_jobs.lake.object_store import ObjectStore
from spark_jobs.lake.run_folder import RunInputs

Clock = Callable[[], datetime]


def utc_now() -> datetime:
    """The current time in UTC."""
    return datetime.now(UTC)


class RunStatus(StrEnum):
    """The status of a run."""

    RUNNING = "running"
    INTERRUPTED = "interrupted"
    FAILED = "failed"
    DONE = "done"
    FINAL = "final"
    REPLACED = "replaced"
    ROLLED_BACK = "rolled back"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepLine:
    """One step of a run; times as ISO 8601 in UTC, `finished_at` empty until it has finished."""

    step: Step
    started_at: str
    finished_at: str = ""
    counts: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerLine:
    """One run; `attempts` counts how often it was started, not counting calls that continue with later steps.

    `reason` is that of a backfill; empty for a normal run.
    """

    run_id: str
    day: date
    manifest: str
    config: str
    state_in: str
    status: RunStatus = RunStatus.RUNNING
    started_at: str
    finished_at: str = ""
    attempts: int = 1
    steps: tuple[StepLine, ...] = ()
    message: str = ""
    reason: str = ""

    @property
    def is_held(self) -> bool:
        """Whether partitions are held in a published run because a critical expectation failed for them."""
        return any(step.step is Step.AUDIT and step.counts.get("critical") for step in self.steps)


@dataclass(frozen=True, slots=True)
class Ledger:
    """Writes the lines of runs; the lock of the lake ensures that there is one writer at a time."""

    lake: ObjectStore
    clock: Clock = utc_now

    def started(self, inputs: RunInputs, *, reason: str = "") -> None:
        """Records that a run starts, restarts, or continues with later steps."""
        before = self.read(inputs.run_id)
        if before is not None and before.status is RunStatus.DONE:
            kept = reason or before.reason
            return self._write(replace(before, status=RunStatus.RUNNING, finished_at="", reason=kept))
        first = LedgerLine(
            run_id=inputs.run_id,
            day=inputs.day,
            manifest=inputs.manifest,
            config=inputs.config,
            state_in=inputs.state_in,
            started_at=self._now(),
            reason=reason,
        )
        line = replace(first, attempts=before.attempts + 1, steps=before.steps) if before else first
        return self._write(line)

    def staged(self, run_id: str, began: datetime, counts: Mapping[str, int]) -> None:
        """Records `stage`, which ends before the run has a name; later attempts do not change its line."""
        line = self._line(run_id)
        if any(step.step is Step.STAGE for step in line.steps):
            return
        started = began.isoformat(timespec="milliseconds")
        stage = StepLine(step=Step.STAGE, started_at=started, finished_at=self._now(), counts=dict(counts))
        self._write(replace(line, steps=(stage, *line.steps)))

    def step_started(self, run_id: str, step: Step) -> None:
        line = self._line(run_id)
        others = tuple(other for other in line.steps if other.step is not step)
        self._write(replace(line, steps=(*others, StepLine(step=step, started_at=self._now()))))

    def step_finished(self, run_id: str, step: Step, counts: Mapping[str, int]) -> None:
        line = self._line(run_id)
        steps = tuple(
            replace(each, finished_at=self._now(), counts=dict(counts)) if each.step is step else each
            for each in line.steps
        )
        self._write(replace(line, steps=steps))

    def failed(self, run_id: str, message: str) -> None:
        """Records that the run ended with an error; `message` says what a person can do."""
        self._end(run_id, RunStatus.FAILED, message)

    def done(self, run_id: str) -> None:
        """Records that all requested steps of the run are done."""
        self._end(run_id, RunStatus.DONE, "")

    def rolled_back(self, run_id: str) -> None:
        """Records that an unfinished run was rolled back; for final runs the chain does."""
        line = self.read(run_id)
        if line is not None:
            self._write(replace(line, status=RunStatus.ROLLED_BACK, message=""))

    def read(self, run_id: str) -> LedgerLine | None:
        """The line of one run, as it was written."""
        if self.lake.stat(ledger_key(run_id)) is None:
            return None
        return read_line(self.lake, ledger_key(run_id))

    def _end(self, run_id: str, status: RunStatus, message: str) -> None:
        line = self._line(run_id)
        self._write(replace(line, status=status, finished_at=self._now(), message=message))

    def _line(self, run_id: str) -> LedgerLine:
        return read_line(self.lake, ledger_key(run_id))

    def _write(self, line: LedgerLine) -> None:
        plain = {**asdict(line), "day": line.day.isoformat()}
        self.lake.put(ledger_key(line.run_id), canonical_json(plain))

    def _now(self) -> str:
        return self.clock().isoformat(timespec="milliseconds")


def list_runs(lake: ObjectStore) -> tuple[LedgerLine, ...]:
    """Every run of the lake by date, then start, with its status according to the chain and the lock."""
    chain, is_held = read_chain(lake), current_holder(lake) is not None
    lines = [read_line(lake, found.key) for found in lake.list(LEDGER)]
    judged = (replace(line, status=_status(line, chain, is_held=is_held)) for line in lines)
    return tuple(sorted(judged, key=lambda line: (line.day, line.started_at, line.run_id)))


def runs_of(lake: ObjectStore, day: date) -> tuple[LedgerLine, ...]:
    """The lines of the runs of one date, as they were written, by start."""
    start = f"{LEDGER}{day}-"
    lines = [read_line(lake, found.key) for found in lake.list(LEDGER) if found.key.startswith(start)]
    return tuple(sorted(lines, key=lambda line: (line.started_at, line.run_id)))


def _status(line: LedgerLine, chain: Chain, *, is_held: bool) -> RunStatus:
    """The chain takes precedence: a run that was killed right after it became final is final."""
    current = chain.run_of(line.day)
    if current is not None and current.run_id == line.run_id:
        return RunStatus.FINAL  # the usual case, without a scan of the whole chain
    kinds = [entry.kind for entry in chain.entries if entry.run_id == line.run_id]
    if kinds:
        return RunStatus.ROLLED_BACK if kinds[-1] is EntryKind.ROLLBACK else RunStatus.REPLACED
    if line.status is RunStatus.RUNNING and not is_held:
        return RunStatus.INTERRUPTED
    return line.status


def read_line(lake: ObjectStore, key: str) -> LedgerLine:
    """The line in the file `key`."""
    with understood(lake.url_of(key), "remove it: only the times of its run are lost"):
        plain = json.loads(lake.read(key))
        typed = {
            "day": date.fromisoformat(plain["day"]),
            "status": RunStatus(plain["status"]),
            "steps": tuple(StepLine(**{**step, "step": Step(step["step"])}) for step in plain["steps"]),
        }
        return LedgerLine(**{**plain, **typed})
