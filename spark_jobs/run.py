"""A run: the steps in order, each once; what is done already is not done again.

Whoever asks again for the same night finds the same run, and goes on where it stopped. A run of `admit` or
beyond becomes final at its end, by one entry of the chain; the next night starts from its state.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from importlib import import_module
from importlib.util import find_spec

from spark_jobs.config.canonical import canonical_json
from spark_jobs.config.settings import Settings
from spark_jobs.flow import STEPS, Step, steps_until
from spark_jobs.protocol.errors import OnceoverError
from spark_jobs.reporting.narrator import Narrator
from spark_jobs.spark_session import Spark
from spark_jobs.steps.context import RunContext, StepResult
from spark_jobs.steps.stage import open_run, stage
from spark_jobs.storage.chain import make_final, read_chain
from spark_jobs.storage.ledger import Ledger
from spark_jobs.storage.lock import LakeLock, lake_lock
from spark_jobs.storage.run_folder import RunFolder, StepDone, combine_states
from spark_jobs.storage.stores import open_lake

FIRST_FINAL = Step.ADMIT
"""Before it a run has no state to hand on, so no night could follow it."""
MESSAGES = "messages.json"
"""What a step has to say to people: a JSON list of sentences in its folder."""


StepFunction = Callable[[RunContext], StepResult]


class UnknownStep(OnceoverError):
    """A step that this version does not have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOutcome:
    """A run that went as far as it was asked to; `worked` are the steps that were not done before."""

    run_id: str
    done: tuple[StepDone, ...]
    worked: tuple[Step, ...]
    is_final: bool


def run_night(settings: Settings, day: date, *, until: Step, spark: Spark, narrator: Narrator) -> RunOutcome:
    """The run of `day` up to and including `until`; raises `LakeBusy` while another one works on the lake."""
    lake = open_lake(settings)
    with lake_lock(lake, purpose=f"run of {day}") as lock:
        chain = read_chain(lake)
        manifest = stage(settings, day, lake=lake, chain=chain)
        folder = open_run(settings, manifest, lake=lake, chain=chain)
        context = RunContext(settings=settings, folder=folder, chain=chain, spark=spark, tell=narrator.tell)
        pending = _pending(folder, until)
        is_final = chain.is_final(folder.run_id, until)
        if pending or (not is_final and until_is_final(until)):
            _work(context, pending, until, lock, narrator)
        done = tuple(each for each in folder.steps_done() if each.step in steps_until(until))
        return RunOutcome(run_id=folder.run_id, done=done, worked=pending, is_final=until_is_final(until))


def until_is_final(until: Step) -> bool:
    """Whether a run that ends with `until` becomes final."""
    return STEPS.index(until) >= STEPS.index(FIRST_FINAL)


def _pending(folder: RunFolder, until: Step) -> tuple[Step, ...]:
    """The steps from the first that is not done on."""
    done = {each.step for each in folder.steps_done()}
    return tuple(step for step in steps_until(until) if step not in done)


def _work(
    context: RunContext, pending: tuple[Step, ...], until: Step, lock: LakeLock, narrator: Narrator
) -> None:
    ledger, run_id = Ledger(context.lake), context.folder.run_id
    ledger.started(context.folder.inputs)
    try:
        for step in pending:
            lock.check()
            ledger.step_started(run_id, step)
            done = _do(step, context, narrator)
            ledger.step_finished(run_id, step, done.counts)
        lock.check()
        if until_is_final(until):
            _make_final(context, until)
    except Exception as error:
        ledger.failed(run_id, str(error))
        raise
    ledger.done(run_id)


def _do(step: Step, context: RunContext, narrator: Narrator) -> StepDone:
    context.folder.begin(step)
    with narrator.step(step) as finished:
        result = _load(step)(context)
        finished(result.counts)
    outputs = result.outputs
    if result.messages:
        outputs = (*outputs, context.folder.put(step, MESSAGES, canonical_json(list(result.messages))))
    narrator.remark(result.messages)
    return context.folder.finish(step, outputs=outputs, counts=result.counts, state=result.state)


def _load(step: Step) -> StepFunction:
    """The step's `run`; its module is loaded only now, since some bring heavy libraries."""
    module = f"spark_jobs.steps.{step}"
    if find_spec(module) is None:
        raise UnknownStep(f"this version has no step '{step}' yet; end the run before it with --until")
    function: StepFunction = import_module(module).run
    return function


def _make_final(context: RunContext, until: Step) -> None:
    done = [each for each in context.folder.steps_done() if each.step in steps_until(until)]
    make_final(
        context.lake,
        context.chain,
        context.folder.inputs,
        state_out=combine_states({each.step: each.state for each in done}),
        last_step=until,
        outputs=done[-1].digest,
    )
