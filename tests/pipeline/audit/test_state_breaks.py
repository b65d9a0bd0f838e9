from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from spark_jobs.kafka.topic_partition import TopicPartition
from spark_jobs.kernels.partition_transactions import TRANSACTION
from spark_jobs.kernels.producers import PRODUCER
from spark_jobs.lake.file_store import FileStore
from spark_jobs.lake.states import PartitionState, put_state
from spark_jobs.pipeline.audit.job import PartitionInputs, StateDigests
from spark_jobs.pipeline.audit.worker import count_state_breaks

BEFORE = PartitionState(end_offset=10, producers=np.zeros(1, dtype=PRODUCER))
AFTER = replace(BEFORE, end_offset=30)


@pytest.fixture
def lake(tmp_path: Path) -> FileStore:
    return FileStore(str(tmp_path))


def _breaks(
    lake: FileStore, previous: PartitionState, at_start: PartitionState, after: PartitionState, end: int = 30
) -> int:
    states = StateDigests(
        previous=put_state(lake, previous),
        at_start=put_state(lake, at_start),
        after=put_state(lake, after),
        admitted_end=end,
    )
    return count_state_breaks(lake, PartitionInputs(partition=TopicPartition("orders", 0), states=states))


def test_a_run_that_continues_from_the_previous_state_breaks_nothing(lake: FileStore) -> None:
    assert _breaks(lake, BEFORE, BEFORE, AFTER) == 0


def test_producers_may_expire_between_runs(lake: FileStore) -> None:
    assert _breaks(lake, BEFORE, replace(BEFORE, producers=np.empty(0, dtype=PRODUCER)), AFTER) == 0


def test_nothing_else_may_change_between_runs(lake: FileStore) -> None:
    assert _breaks(lake, BEFORE, replace(BEFORE, end_offset=9), AFTER) == 1
    assert _breaks(lake, BEFORE, replace(BEFORE, parked="ab" * 32), AFTER) == 1


def test_a_log_does_not_shrink_and_ends_where_admit_says(lake: FileStore) -> None:
    assert _breaks(lake, BEFORE, BEFORE, replace(AFTER, end_offset=5), end=5) == 1
    assert _breaks(lake, BEFORE, BEFORE, AFTER, end=31) == 1


@pytest.mark.parametrize(
    ("previous", "at_start", "after", "breaks"),
    [
        ("", "", "", 0),
        ("", "B", "B", 0),
        ("A", "A", "A", 0),
        ("A", "B", "B", 1),
        ("A", "A", "B", 1),
        ("A", "", "", 1),
    ],
)
def test_a_known_topic_id_stays(
    lake: FileStore, previous: str, at_start: str, after: str, breaks: int
) -> None:
    ids = {"": "", "A": "25SNuNZhRx2La2_fVdm_UQ", "B": "Q6qNlyVoRc-LPQhzkpBTGA"}
    before, start = replace(BEFORE, topic_id=ids[previous]), replace(BEFORE, topic_id=ids[at_start])
    assert _breaks(lake, before, start, replace(AFTER, topic_id=ids[after])) == breaks


@pytest.mark.parametrize(
    "states",
    [
        StateDigests(previous="ab" * 32),
        StateDigests(at_start="ab" * 32, after="cd" * 32),
    ],
    ids=["forgotten", "missing files"],
)
def test_a_state_that_is_lost_is_a_break(lake: FileStore, states: StateDigests) -> None:
    assert count_state_breaks(lake, PartitionInputs(partition=TopicPartition("orders", 0), states=states)) > 0


@pytest.mark.parametrize(("first", "breaks"), [(10, 0), (12, 0), (9, 1)])
def test_what_was_published_is_not_published_again(lake: FileStore, first: int, breaks: int) -> None:
    inputs = PartitionInputs(
        partition=TopicPartition("orders", 0), published_before=10, first_offset=first, end_offset=20
    )
    assert count_state_breaks(lake, inputs) == breaks


@pytest.mark.parametrize(("start", "breaks"), [(4, 0), (7, 0), (2, 1)])
def test_a_brokers_log_may_begin_later_than_the_run_before_but_not_sooner(
    lake: FileStore, start: int, breaks: int
) -> None:
    previous, at_start = replace(BEFORE, log_start_offset=4), replace(BEFORE, log_start_offset=start)
    assert _breaks(lake, previous, at_start, replace(AFTER, log_start_offset=start)) == breaks


@pytest.mark.parametrize(("is_behind_gap", "breaks"), [(True, 0), (False, 1)])
def test_only_behind_a_gap_a_snapshot_has_the_open_transactions(
    lake: FileStore, *, is_behind_gap: bool, breaks: int
) -> None:
    opened = replace(BEFORE, open_transactions=np.zeros(1, dtype=TRANSACTION))
    states = StateDigests(
        previous=put_state(lake, BEFORE),
        at_start=put_state(lake, opened),
        after=put_state(lake, AFTER),
        is_behind_gap=is_behind_gap,
    )
    inputs = PartitionInputs(partition=TopicPartition("orders", 0), states=states)
    assert count_state_breaks(lake, inputs) == breaks
