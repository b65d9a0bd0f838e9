"""Runs for tests of run folder, chain and ledger."""

from datetime import date

from spark_jobs.flow import Step
from spark_jobs.lake.chain import ChainEntry, make_final, read_chain
from spark_jobs.lake.object_store import ObjectStore
from spark_jobs.lake.run_folder import RunInputs


def day(number: int) -> date:
    return date(2024, 5, number)


def inputs_of(lake: ObjectStore, number: int, manifest: str = "m") -> RunInputs:
    """Inputs of a run of that day, on the state that the chain has before it."""
    state = read_chain(lake).state_before(day(number))
    return RunInputs(day=day(number), manifest=manifest, config="c", state_in=state)


def finish_run(
    lake: ObjectStore, number: int, *, state: str, manifest: str = "m", last_step: Step = Step.ADMIT
) -> ChainEntry:
    """Makes a run of that day final, with `state` as what it hands on."""
    return make_final(
        lake,
        read_chain(lake),
        inputs_of(lake, number, manifest),
        state_out=state,
        last_step=last_step,
        outputs=f"outputs of {last_step}",
    )
