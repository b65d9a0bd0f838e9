"""One run in the lake: its inputs, and for every step that is done the outputs with their digests.

A run's name follows from its inputs, so the same inputs find the same folder, and find there what is done.
A step is done when its `_done.json` stands; what an interrupted step left behind is cleared before it starts
again. Nothing in a run folder holds a clock's time: times are in the ledger.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, date, datetime, time
from functools import lru_cache
from typing import Any

from spark_jobs.config.canonical import canonical_json, digest_of
from spark_jobs.flow import STEPS, Step
from spark_jobs.lake.errors import BrokenRun, understood
from spark_jobs.lake.layout import run_key, step_key
from spark_jobs.lake.object_store import ObjectStore

DONE = "_done.json"
INPUTS = "inputs.json"
MANIFEST = "manifest.jsonl"
DAY_MS = 86_400_000
EXPIRED = "expired.json"
"""Stands in the folder of a run whose large files were removed on purpose: it is done all the same."""
ID_DIGITS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInputs:
    """What a run is a pure function of; the three digests name manifest, settings and state-in."""

    day: date
    manifest: str
    config: str
    state_in: str

    @property
    def run_id(self) -> str:
        """The date, then what names the inputs: `2024-05-01-3f9a0c12ab34cd56`."""
        return _run_id(self)

    @property
    def logical_time_ms(self) -> int:
        """The run's "now", in ms since 1970: the end of its day in UTC, whenever it really runs."""
        start = datetime.combine(self.day, time(), UTC)  # the day after the last that there is has no date
        return int(start.timestamp()) * 1000 + DAY_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputFile:
    """One file that a step wrote; `path` is relative to the step's folder.

    `digest` is its SHA-256, but of a segment of the accepted log what `SegmentDigest` makes of its batches.
    """

    path: str
    size: int
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StepDone:
    """A finished step: its outputs, its counts, and the digest of the state that it hands to the next run.

    `after` is the digest of the step before it: a step whose predecessor was done anew is not done any more.
    """

    step: Step
    after: str
    outputs: tuple[OutputFile, ...]
    counts: dict[str, int] = field(default_factory=dict)
    state: str = ""

    @property
    def digest(self) -> str:
        return digest_of(asdict(self))


@dataclass(frozen=True, slots=True)
class RunFolder:
    """The folder of the run with these inputs in `lake`."""

    lake: ObjectStore
    inputs: RunInputs

    @property
    def run_id(self) -> str:
        return self.inputs.run_id

    def create(self) -> None:
        """Writes down the inputs; the same run again finds them there."""
        if not self.lake.put_if_absent(run_key(self.run_id, INPUTS), canonical_json(_plain(self.inputs))):
            raise BrokenRun(f"{self.run_id}: its folder's inputs do not match its name")

    def key(self, step: Step, *parts: str) -> str:
        """Key in the lake of something that `step` writes."""
        return step_key(self.run_id, step, *parts)

    def put(self, step: Step, path: str, data: bytes) -> OutputFile:
        """Writes one small output of `step`."""
        self.lake.put(self.key(step, path), data, lasting=False)
        return OutputFile(path=path, size=len(data), digest=hashlib.sha256(data).hexdigest())

    def unmark(self, step: Step) -> None:
        """`step` is not done any more; what it wrote stays, because snapshots of tables may name it."""
        self.lake.delete(self.key(step, DONE))

    def begin(self, step: Step) -> None:
        """Clears what an interrupted attempt at `step` left behind, its mark first."""
        self.unmark(step)
        for found in tuple(self.lake.list(self.key(step))):
            self.lake.delete(found.key)

    def finish(
        self,
        step: Step,
        *,
        outputs: Iterable[OutputFile],
        counts: Mapping[str, int] | None = None,
        state: str = "",
    ) -> StepDone:
        """Marks `step` as done; digests come from the writers, nothing is read again here."""
        done = StepDone(
            step=step,
            after=self._digest_before(step),
            outputs=tuple(sorted(outputs, key=lambda output: output.path)),
            counts=dict(counts or {}),
            state=state,
        )
        self.lake.put(self.key(step, DONE), canonical_json(asdict(done)))
        return done

    def settle(self, *steps: Step) -> None:
        """Returns when what these steps wrote survives a power failure.

        Until then a file that one has cut short undoes its step: its size is another than the mark says.
        """
        marked = [done for step in steps if (done := self.marked(step)) is not None]
        self.lake.settle(self.key(done.step, output.path) for done in marked for output in done.outputs)

    def done(self, step: Step) -> StepDone | None:
        """The finished step, if it is finished, follows from its predecessor, and its outputs still stand.

        Those of an expired run need not: it was final long ago.
        """
        return self._done_after(self._digest_before(step), step)

    @property
    def is_expired(self) -> bool:
        """Whether its large files were removed on purpose."""
        return self.lake.stat(run_key(self.run_id, EXPIRED)) is not None

    def expire(self) -> None:
        """Says so, before the first of them goes."""
        self.lake.put(run_key(self.run_id, EXPIRED), canonical_json({"run_id": self.run_id}))

    def steps_done(self) -> tuple[StepDone, ...]:
        """The finished steps in order, up to the first that is not."""
        finished: list[StepDone] = []
        for step in STEPS:
            done = self._done_after(finished[-1].digest if finished else "", step)
            if done is None:
                break
            finished.append(done)
        return tuple(finished)

    def _done_after(self, before: str, step: Step) -> StepDone | None:
        done = self.marked(step)
        if done is None or done.after != before:
            return None
        return done if self._stands(done) or self.is_expired else None

    def marked(self, step: Step) -> StepDone | None:
        """The step as recorded when it was done, without checking its outputs; None without one."""
        if self.lake.stat(self.key(step, DONE)) is None:
            return None
        with understood(self.lake.url_of(self.key(step, DONE)), "remove it, and the step is done again"):
            return _read_done(self.lake.read(self.key(step, DONE)))

    def _digest_before(self, step: Step) -> str:
        position = STEPS.index(step)
        before = self.marked(STEPS[position - 1]) if position else None
        return before.digest if before else ""

    def _stands(self, done: StepDone) -> bool:
        prefix = self.key(done.step) + "/"
        sizes = {found.key.removeprefix(prefix): found.size for found in self.lake.list(prefix)}
        return all(sizes.get(output.path) == output.size for output in done.outputs)


def combine_states(states: Mapping[Step, str]) -> str:
    """The digest of a run's state-out: the states of its steps, by step."""
    return digest_of({step.value: state for step, state in states.items() if state})


EMPTY_STATE = combine_states({})
"""The state before the first run."""


def read_inputs(lake: ObjectStore, run_id: str) -> RunInputs:
    """The inputs of a run that exists."""
    with understood(lake.url_of(run_key(run_id, INPUTS))):
        plain = json.loads(lake.read(run_key(run_id, INPUTS)))
        return RunInputs(**{**plain, "day": date.fromisoformat(plain["day"])})


@lru_cache
def _run_id(inputs: RunInputs) -> str:
    return f"{inputs.day.isoformat()}-{digest_of(_plain(inputs))[:ID_DIGITS]}"


def _plain(inputs: RunInputs) -> dict[str, Any]:
    return {**asdict(inputs), "day": inputs.day.isoformat()}


def _read_done(data: bytes) -> StepDone:
    plain = json.loads(data)
    outputs = tuple(OutputFile(**output) for output in plain["outputs"])
    return StepDone(**{**plain, "step": Step(plain["step"]), "outputs": outputs})
