"""Whether a partition starts from the previous run's state and stores its own."""

from collections.abc import Iterator

from spark_jobs.auditing.inputs import PartitionInputs, StateDigests
from spark_jobs.storage.errors import BrokenState, ObjectMissing
from spark_jobs.storage.object_store import ObjectStore
from spark_jobs.storage.state_file import PartitionState, get_state


def count_state_breaks(lake: ObjectStore, inputs: PartitionInputs) -> int:
    """Differences that no rule explains, and state files that cannot be read.

    Between two runs producers may be forgotten, and a broker may have deleted records, so that its log
    begins later; if that is behind a gap, a snapshot tells what is open there. Nothing else may change, and
    nothing is published twice.
    """
    repeats = inputs.first_offset < min(inputs.published_before, inputs.end_offset)
    states = inputs.states
    if states.handed_on == states.taken_up == states.after:
        return int(repeats)
    try:
        return int(repeats) + sum(_breaks(lake, states))
    except (BrokenState, ObjectMissing):
        return int(repeats) + 1


def _breaks(lake: ObjectStore, states: StateDigests) -> Iterator[bool]:
    yield bool(states.handed_on) and not states.taken_up
    yield not states.after
    if states.handed_on and states.taken_up and states.handed_on != states.taken_up:
        handed_on, taken_up = _get(lake, states.handed_on), _get(lake, states.taken_up)
        yield _position(handed_on) != _position(taken_up)
        yield not states.is_behind_gap and _opened(handed_on) != _opened(taken_up)
        yield taken_up.log_start_offset < handed_on.log_start_offset
        yield handed_on.topic_id not in ("", taken_up.topic_id)
    if states.taken_up and states.after:
        before, after = _get(lake, states.taken_up), _get(lake, states.after)
        yield after.end_offset < before.end_offset
        yield after.topic_id != before.topic_id
        yield states.admitted_end is not None and after.end_offset != states.admitted_end


def _get(lake: ObjectStore, digest: str) -> PartitionState:
    """Proved, but without producers: they may change, and where they do is for other checks to say."""
    return get_state(lake, digest, with_producers=False)


def _position(state: PartitionState) -> tuple[object, ...]:
    return (
        state.end_offset,
        state.published_offset,
        state.leader_epochs,
        state.parked,
        state.gaps,
    )


def _opened(state: PartitionState) -> bytes:
    return state.open_transactions.tobytes()
