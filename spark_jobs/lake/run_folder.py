"""The folder of a run in the lake: its inputs, and for each finished step its outputs with their digests.

A run's name is derived from its inputs, so the same inputs lead to the same folder and its finished steps.
A step is done when its `_done.json` exists; outputs of an interrupted attempt are deleted before the step
starts again. No file of a run folder holds wall-clock time: times are in the ledger.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, date, datetime, time
from functools import lru_cache
from typing import Any

from spark_jobs.config.canonical import canonical_json, digest_of
from spark_jobs.flow import OPTIONAL, STEPS, Step
from spark_jobs.lake.errors import BrokenRun, understood
from spark_jobs.lake.layout import run_key, step_key
from spark_jobs.lake.object_store import ObjectStore

DONE = "_done.json"
INPUTS = "inputs.json"
MANIFEST = "manifest.jsonl"
MESSAGES = "messages.json"
"""Remarks of a step for people: a JSON list of sentences in its folder."""
DAY_MS = 86_400_000
EXPIRED = "expired.json"
"""Marks the folder of a run whose large files an expiry has removed; its steps still count as done."""
ID_DIGITS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInputs:
    """The inputs that determine a run; the three digests name manifest, settings and state-in."""

    day: date
    manifest: str
    config: str
    state_in: str

    @property
    def run_id(self) -> str:
        """The date and a digest of the inputs: `2024-05-01-3f9a0c12ab34cd56`."""
        return _run_id(self)

    @property
    def logical_time_ms(self) -> int:
        """The run's "now", in ms since 1970: the end of its date in UTC, independent of the wall clock."""
        start = datetime.combine(self.day, time(), UTC)  # not from the next day: the last date has none
        return int(start.timestamp()) * 1000 + DAY_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputFile:
    """One file that a step wrote; `path` is relative to the step's folder.

    `digest` is its SHA-256; for a segment of the accepted log, the `SegmentDigest` of its batches.
    """

    path: str
    size: int
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StepDone:
    """A finished step: its outputs, its counts, and the digest of the state that it hands to the next run.

    `after` is the digest of the previous step: if that one ran again with another result, this one is not
    done any more.
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
        """Writes the inputs; a repeated call for the same run changes nothing."""
        if not self.lake.put_if_absent(run_key(self.run_id, INPUTS), canonical_json(_plain(self.inputs))):
            raise BrokenRun(f"{self.run_id}: its folder's inputs do not match its name")

    def key(self, step: Step, *parts: str) -> str:
        """Key in the lake of something that `step` writes."""
        return step_key(self.run_id, step, *parts)

    def put(self, step: Step, path: str, data: bytes) -> OutputFile:
        """Writes one small output of `step`."""
        self.lake.put(self.key(step, path), data, durable=False)
        return OutputFile(path=path, size=len(data), digest=hashlib.sha256(data).hexdigest())

    def unmark(self, step: Step) -> None:
        """Marks `step` as not done; its outputs are kept, because snapshots of tables may reference them."""
        self.lake.delete(self.key(step, DONE))

    def begin(self, step: Step) -> None:
        """Deletes what an earlier attempt of `step` wrote, `_done.json` first."""
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
        """Marks `step` as done; the digests come from the writers, so no output is read again."""
        done = StepDone(
            step=step,
            after=self._digest_before(step),
            outputs=tuple(sorted(outputs, key=lambda output: output.path)),
            counts=dict(counts or {}),
            state=state,
        )
        self.lake.put(self.key(step, DONE), canonical_json(asdict(done)))
        return done

    def make_durable(self, *steps: Step) -> None:
        """Returns when the outputs of these steps survive a power failure.

        Until then, a file that a power failure truncates makes its step count as not done: its size differs.
        """
        marked = [done for step in steps if (done := self.marked(step)) is not None]
        self.lake.make_durable(self.key(done.step, output.path) for done in marked for output in done.outputs)

    def done(self, step: Step) -> StepDone | None:
        """The step, if it is marked as done, follows from its predecessor, and all its outputs exist.

        The outputs of an expired run may be missing.
        """
        return self._done_after(self._digest_before(step), step)

    @property
    def is_expired(self) -> bool:
        """Whether an expiry has removed its large files."""
        return self.lake.stat(run_key(self.run_id, EXPIRED)) is not None

    def expire(self) -> None:
        """Marks the run as expired, before the first of its files is removed."""
        self.lake.put(run_key(self.run_id, EXPIRED), canonical_json({"run_id": self.run_id}))

    def steps_done(self) -> tuple[StepDone, ...]:
        """The finished steps in order, up to the first that is not."""
        finished: list[StepDone] = []
        for step in STEPS:
            done = self._done_after(finished[-1].digest if finished else "", step)
            if done is not None:
                finished.append(done)
            elif step not in OPTIONAL:
                break
        return tuple(finished)

    def _done_after(self, before: str, step: Step) -> StepDone | None:
        done = self.marked(step)
        if done is None or done.after != before:
            return None
        return done if self._has_outputs(done) or self.is_expired else None

    def marked(self, step: Step) -> StepDone | None:
        """The step according to its `_done.json`, without checking its outputs; None without one."""
        if self.lake.stat(self.key(step, DONE)) is None:
            return None
        with understood(self.lake.url_of(self.key(step, DONE)), "remove it, and the step is done again"):
            return _read_done(self.lake.read(self.key(step, DONE)))

    def _digest_before(self, step: Step) -> str:
        for earlier in reversed(STEPS[: STEPS.index(step)]):
            before = self.marked(earlier)
            if before is not None or earlier not in OPTIONAL:
                return before.digest if before else ""
        return ""

    def _has_outputs(self, done: StepDone) -> bool:
        """Whether every output exists with the recorded size.

        Sizes are enough: files appear atomically, and the inputs that the run id names determine both path
        and bytes of an output, so a second attempt of a task can only replace a file by an equal one. A power
        failure can truncate a file, which changes its size. `onceover check --deep` compares digests.
        """
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
