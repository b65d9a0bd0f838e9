from dataclasses import replace
from datetime import date

import pytest

from spark_jobs.flow import Step
from spark_jobs.lake.errors import BrokenRun
from spark_jobs.lake.layout import run_key
from spark_jobs.lake.object_store import ObjectStore
from spark_jobs.lake.run_folder import (
    EMPTY_STATE,
    RunFolder,
    RunInputs,
    StepDone,
    combine_states,
    read_inputs,
)

INPUTS = RunInputs(day=date(2024, 2, 29), manifest="m" * 64, config="c" * 64, state_in=EMPTY_STATE)


@pytest.fixture
def run(store: ObjectStore) -> RunFolder:
    folder = RunFolder(store, INPUTS)
    folder.create()
    return folder


def test_a_run_is_named_by_its_date_and_its_inputs() -> None:
    others = (
        replace(INPUTS, day=date(2024, 3, 1)),
        replace(INPUTS, manifest="other"),
        replace(INPUTS, config="other"),
        replace(INPUTS, state_in="other"),
    )
    names = {INPUTS.run_id, *(each.run_id for each in others)}
    assert INPUTS.run_id == "2024-02-29-659016a3ed0b3afc"
    assert len(names) == 5


def test_a_runs_now_is_the_end_of_its_day() -> None:
    assert INPUTS.logical_time_ms == 1709251200000


def test_the_same_run_again_finds_its_folder(run: RunFolder) -> None:
    run.create()
    assert read_inputs(run.lake, run.run_id) == INPUTS


def test_a_folder_with_other_inputs_than_its_name_says_is_refused(run: RunFolder) -> None:
    run.lake.put(run_key(run.run_id, "inputs.json"), b"{}")
    with pytest.raises(BrokenRun, match=run.run_id):
        run.create()


def test_a_step_is_done_when_it_was_finished(run: RunFolder) -> None:
    assert run.done(Step.STAGE) is None
    done = _do(run, Step.STAGE, b"bytes")
    assert run.done(Step.STAGE) == done
    assert (done.counts, done.state) == ({"rows": 1}, "state")
    assert [(output.path, output.size) for output in done.outputs] == [("part/0.bin", 5)]


def test_a_step_whose_output_was_lost_is_not_done(run: RunFolder) -> None:
    _do(run, Step.STAGE, b"bytes")
    run.lake.delete(run.key(Step.STAGE, "part/0.bin"))
    assert run.done(Step.STAGE) is None


def test_a_step_whose_output_was_cut_is_not_done(run: RunFolder) -> None:
    _do(run, Step.STAGE, b"bytes")
    run.lake.put(run.key(Step.STAGE, "part/0.bin"), b"byt")
    assert run.done(Step.STAGE) is None


def test_a_step_that_was_done_before_its_predecessor_changed_is_not_done(run: RunFolder) -> None:
    _do(run, Step.STAGE, b"bytes")
    _do(run, Step.INDEX, b"rows")
    assert [done.step for done in run.steps_done()] == [Step.STAGE, Step.INDEX]
    _do(run, Step.STAGE, b"other")
    assert [done.step for done in run.steps_done()] == [Step.STAGE]


def test_a_step_done_again_with_the_same_outputs_keeps_what_followed(run: RunFolder) -> None:
    _do(run, Step.STAGE, b"bytes")
    followed = _do(run, Step.INDEX, b"rows")
    _do(run, Step.STAGE, b"bytes")
    assert run.done(Step.INDEX) == followed


def test_beginning_a_step_clears_what_an_interrupted_attempt_left(run: RunFolder) -> None:
    run.put(Step.INDEX, "half/file", b"half")
    run.put(Step.ADMIT, "whole", b"")
    run.begin(Step.INDEX)
    assert list(run.lake.list(run.key(Step.INDEX))) == []
    assert len(list(run.lake.list(run.key(Step.ADMIT)))) == 1


def test_the_same_outputs_give_the_same_bytes_in_whatever_order_they_were_written(run: RunFolder) -> None:
    outputs = [run.put(Step.INDEX, name, name.encode()) for name in ("b", "a", "c")]
    one = run.finish(Step.INDEX, outputs=outputs)
    written = run.lake.read(run.key(Step.INDEX, "_done.json"))
    other = run.finish(Step.INDEX, outputs=reversed(outputs))
    assert (one.digest, written) == (other.digest, run.lake.read(run.key(Step.INDEX, "_done.json")))


def test_a_state_is_named_by_its_parts() -> None:
    whole = combine_states({Step.ADMIT: "a", Step.RESOLVE: "r"})
    parts = {combine_states({Step.ADMIT: "a"}), combine_states({Step.RESOLVE: "a"})}
    assert whole == combine_states({Step.RESOLVE: "r", Step.ADMIT: "a"})
    assert len({whole, *parts, EMPTY_STATE}) == 4


def test_a_step_without_state_does_not_count() -> None:
    assert combine_states({Step.STAGE: "", Step.ADMIT: "a"}) == combine_states({Step.ADMIT: "a"})


def _do(run: RunFolder, step: Step, data: bytes) -> StepDone:
    run.begin(step)
    output = run.put(step, "part/0.bin", data)
    return run.finish(step, outputs=[output], counts={"rows": 1}, state="state")
