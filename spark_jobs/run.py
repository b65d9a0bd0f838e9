"""Executes a run: its steps in order; finished steps are not repeated.

A second call for the same run date and inputs continues the same run where it stopped. A run that includes
`admit` becomes final at its end, by one entry of the chain; the next run starts from its state. `report` is
not part of the run: it shows the result, also after a failure, and changes nothing of it.
"""

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from itertools import zip_longest
from threading import Thread

from spark_jobs.config.canonical import canonical_json
from spark_jobs.config.settings import Settings
from spark_jobs.config.spark_master import check_executors_reach
from spark_jobs.execution.spark import Spark
from spark_jobs.flow import LAST_OF_RUN, OPTIONAL, STEPS, Step, steps_until
from spark_jobs.kafka.errors import OnceoverError
from spark_jobs.lake.chain import Chain, make_final, read_chain
from spark_jobs.lake.errors import LakeBusy, LakeMoved
from spark_jobs.lake.iceberg.holdings import check_catalog
from spark_jobs.lake.identity import locked_lake
from spark_jobs.lake.ledger import Ledger, utc_now
from spark_jobs.lake.lock import LakeLock
from spark_jobs.lake.manifest import Manifest
from spark_jobs.lake.object_store import ObjectStore
from spark_jobs.lake.run_folder import MESSAGES, RunFolder, StepDone, combine_states
from spark_jobs.pipeline.context import RunContext, StepResult
from spark_jobs.pipeline.stage.backfill_request import BackfillRequest
from spark_jobs.pipeline.stage.step import fetch, fixed_inputs, open_run, stage, staged_counts
from spark_jobs.progress import RunProgress

FIRST_FINAL = Step.ADMIT
"""The first step with which a run can end and become final: before it a run has no state for the next one."""

MOST_REMARKS = 20


class UnknownStep(OnceoverError):
    """A step that this version does not have."""


class ReportFailed(OnceoverError):
    """The run is final and published; only its report failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOutcome:
    """The outcome of a call; `worked` says whether anything was left to do."""

    run_id: str
    done: tuple[StepDone, ...]
    worked: bool
    is_final: bool

    @property
    def is_held(self) -> bool:
        """Whether a critical expectation failed that holds some partitions and lets the others continue."""
        return any(each.step is Step.AUDIT and each.counts.get("critical") for each in self.done)


def execute_run(
    settings: Settings,
    day: date,
    *,
    until: Step,
    spark: Spark,
    progress: RunProgress,
    more_steps_follow: bool = False,
    backfill: BackfillRequest | None = None,
    restage: bool = False,
    is_first_call: bool = True,
) -> RunOutcome:
    """The run of `day` up to and including `until`; raises `LakeBusy` while another process holds the lake's
    lock.

    With `more_steps_follow` the run does not become final yet. With `backfill` it may replace the current
    run of the day; a call for `stage` alone fixes new inputs, later calls use them. `restage` lists the
    sources again though an earlier attempt has fixed the inputs; without it the first call of an attempt
    reports that they are fixed, and what differs at the sources since.
    """
    run = partial(
        _run,
        settings,
        day,
        spark=spark,
        progress=progress,
        backfill=backfill,
        restage=restage,
        is_first_call=is_first_call,
    )
    if until is not Step.REPORT:
        return run(until=until, more_steps_follow=more_steps_follow)
    try:
        outcome = run(until=LAST_OF_RUN, more_steps_follow=False)
    except (LakeBusy, LakeMoved):
        raise  # the running process will report; a copy of a lake is read-only
    except Exception as error:
        _report_failure(settings, error, progress)
        raise
    try:
        report_run(settings, outcome.run_id, progress)
    except Exception as error:
        raise ReportFailed(
            f"run {outcome.run_id} is final and published; its report failed: {error}"
        ) from error
    return outcome


def report_run(settings: Settings, run_id: str | None, progress: RunProgress) -> Mapping[str, int]:
    """Updates the dashboard; the counts of the step. It only reads runs, so it needs no lock."""
    report = _load(Step.REPORT, "report")
    with progress.step(Step.REPORT) as finished:
        result: StepResult = report(settings, run_id=run_id, on_progress=progress.on_progress)
        finished(result.counts)
    progress.remark(result.messages)
    return result.counts


def _report_failure(settings: Settings, failure: Exception, progress: RunProgress) -> None:
    """Reports a failed run; an error of the report itself is added as a note to the failure."""
    try:
        report_run(settings, None, progress)
    except Exception as error:  # noqa: BLE001 — logged with the failure that led here
        failure.add_note(f"its report failed, too: {error}")


def fetch_source(
    settings: Settings, day: date, source: str, *, spark: Spark | None = None, restage: bool = False
) -> Mapping[str, int]:
    """Stages the objects of one source ahead of `stage`; returns the counts."""
    if spark is not None:
        check_executors_reach(settings, spark.master)
    with locked_lake(settings, purpose=f"fetching of '{source}' for {day}") as (lake, _):
        return fetch(
            settings, day, source=source, lake=lake, chain=read_chain(lake), spark=spark, restage=restage
        )


def _run(
    settings: Settings,
    day: date,
    *,
    until: Step,
    spark: Spark,
    progress: RunProgress,
    more_steps_follow: bool,
    backfill: BackfillRequest | None,
    restage: bool,
    is_first_call: bool,
) -> RunOutcome:
    check_executors_reach(settings, spark.master)
    with locked_lake(settings, purpose=f"{'backfill' if backfill else 'run'} of {day}") as (lake, lock):
        chain, began = read_chain(lake), utc_now()
        if backfill is None:
            if is_first_call and not restage:
                _remark_fixed(settings, day, lake, chain, progress)
            folder = _stage(settings, day, lake, chain, spark=spark, progress=progress, restage=restage)
        else:
            folder = _stage_backfill(
                settings,
                day,
                lake,
                chain,
                spark=spark,
                progress=progress,
                request=backfill,
                restage=until is Step.STAGE,
            )
        context = RunContext(
            settings=settings, folder=folder, chain=chain, spark=spark, on_progress=progress.on_progress
        )
        final = becomes_final(until) and not more_steps_follow
        done = _done(folder, until)
        is_over = _is_over(context, until, done, final=final)
        if is_over and Step.PUBLISH in steps_until(until):
            check_catalog(settings, lake, chain)  # "nothing left to do" must be true of the tables, too
        if not is_over:
            Ledger(lake).started(folder.inputs, reason=backfill.reported if backfill else "")
            Ledger(lake).staged(folder.run_id, began, done[0].counts)
            done = _work(context, until, done, lock, progress, final=final)
        return RunOutcome(
            run_id=folder.run_id,
            done=done,
            worked=not is_over,
            is_final=final,
        )


def becomes_final(until: Step) -> bool:
    """Whether a run that ends with `until` can be followed by another run."""
    return STEPS.index(until) >= STEPS.index(FIRST_FINAL)


def _remark_fixed(
    settings: Settings, day: date, lake: ObjectStore, chain: Chain, progress: RunProgress
) -> None:
    fixed = fixed_inputs(settings, day, lake=lake, chain=chain)
    if fixed is not None:
        progress.remark([fixed.sentence])


def _stage(
    settings: Settings,
    day: date,
    lake: ObjectStore,
    chain: Chain,
    *,
    spark: Spark,
    progress: RunProgress,
    restage: bool,
) -> RunFolder:
    """Runs `stage` before the run has a name: the run id is derived from the manifest."""
    started = time.monotonic()
    manifest = stage(settings, day, lake=lake, chain=chain, spark=spark, restage=restage)
    folder = open_run(settings, manifest, lake=lake, chain=chain)
    _report_staged(manifest, progress, time.monotonic() - started)
    return folder


def _stage_backfill(
    settings: Settings,
    day: date,
    lake: ObjectStore,
    chain: Chain,
    *,
    spark: Spark,
    progress: RunProgress,
    request: BackfillRequest,
    restage: bool,
) -> RunFolder:
    """Stages a run of a backfill; a run that replaces another one has to be published again."""
    started = time.monotonic()
    manifest = stage(settings, day, lake=lake, chain=chain, spark=spark, backfill=request, restage=restage)
    folder = open_run(settings, manifest, lake=lake, chain=chain, backfill=True)
    current = chain.run_of(day)
    if restage and current is not None and current.run_id != folder.run_id:
        folder.begin(Step.PUBLISH)
    if restage:
        _report_staged(manifest, progress, time.monotonic() - started)
    return folder


def _report_staged(manifest: Manifest, progress: RunProgress, seconds: float) -> None:
    counts = {name: count for name, count in staged_counts(manifest).items() if name != "bytes"}
    progress.done(Step.STAGE, counts, seconds)
    progress.remark([f"source {each.bare}: {each.detail}" for each in manifest.bare_sources])
    progress.remark([each.detail for each in manifest.problems[:MOST_REMARKS]])


def _done(folder: RunFolder, until: Step) -> tuple[StepDone, ...]:
    return tuple(each for each in folder.steps_done() if each.step in steps_until(until))


def _is_over(context: RunContext, until: Step, done: tuple[StepDone, ...], *, final: bool) -> bool:
    """Whether all steps are done, the ledger has the run, and it is final if it should be."""
    run_id = context.folder.run_id
    return (
        not _left(context, until, done)
        and Ledger(context.lake).read(run_id) is not None
        and (context.chain.is_final(run_id, until) or not final)
    )


def _left(context: RunContext, until: Step, done: tuple[StepDone, ...]) -> tuple[Step, ...]:
    """The steps that are not done yet; optional ones only if the settings ask for them."""
    finished = {each.step for each in done}
    wanted = OPTIONAL if context.settings.has_dedup else frozenset[Step]()
    return tuple(
        step
        for step in steps_until(until)
        if step not in finished and (step not in OPTIONAL or step in wanted)
    )


def _work(
    context: RunContext,
    until: Step,
    done: tuple[StepDone, ...],
    lock: LakeLock,
    progress: RunProgress,
    *,
    final: bool,
) -> tuple[StepDone, ...]:
    """Runs the steps after `done`; returns the steps done then.

    A failure is recorded in the ledger; a killed process leaves "interrupted".
    """
    ledger, run_id = Ledger(context.lake), context.folder.run_id
    preparing: Thread | None = None
    try:
        steps = _left(context, until, done)
        for step, following in zip_longest(steps, steps[1:]):
            lock.check()
            ledger.step_started(run_id, step)
            if preparing is not None:
                preparing.join()  # concurrent imports of a library can see it partly initialised
            preparing = _prepare_beside(following) if following is not None else None
            ledger.step_finished(run_id, step, _do(step, context, progress).counts)
        lock.check()
        done = _done(context.folder, until)  # as stored in the lake
        if final:
            _make_final(context, until, done)
    except Exception as error:
        ledger.failed(run_id, str(error))
        raise
    ledger.done(run_id)
    return done


def _do(step: Step, context: RunContext, progress: RunProgress) -> StepDone:
    run = _load(step)
    context.current.step = step
    context.folder.begin(step)
    with progress.step(step) as finished:
        result = run(context)
        finished(result.counts)
    progress.remark(result.messages)
    outputs = result.outputs
    if result.messages:
        outputs += (context.folder.put(step, MESSAGES, canonical_json(list(result.messages))),)
    done = context.folder.finish(step, outputs=outputs, counts=result.counts, state=result.state)
    for key in result.obsolete:
        context.lake.delete(key)
    return done


def _load(step: Step, name: str = "run") -> Callable[..., StepResult]:
    """The step's function; its module is imported only when needed, since some import heavy libraries."""
    module = f"spark_jobs.pipeline.{step}.step"
    if find_spec(module) is None:
        raise UnknownStep(f"this version has no step '{step}' yet; end the run before it with --until")
    function: Callable[..., StepResult] = getattr(import_module(module), name)
    return function


def prepare_step(step: Step) -> None:
    """Imports and compiles ahead of time what a step needs."""
    module = f"spark_jobs.pipeline.{step}.step"
    prepare = getattr(import_module(module), "prepare", None) if find_spec(module) else None
    if prepare is not None:
        prepare()


def _prepare_beside(step: Step) -> Thread:
    """Prepares a step in a thread while the previous one runs; an error occurs again in the step itself."""

    def prepare() -> None:
        with suppress(Exception):
            prepare_step(step)

    thread = Thread(target=prepare, name=f"prepare {step}", daemon=True)
    thread.start()
    return thread


def _make_final(context: RunContext, until: Step, done: tuple[StepDone, ...]) -> None:
    context.folder.make_durable(*(each.step for each in done))
    make_final(
        context.lake,
        context.chain,
        context.folder.inputs,
        state_out=combine_states({each.step: each.state for each in done}),
        last_step=until,
        outputs=done[-1].digest,
    )
