"""`admit` on brokers' logs in which a base offset changed: that batch is set aside, what follows is taken."""

import json
from pathlib import Path

import pytest

from spark_jobs.flow import Step
from spark_jobs.kafka.formats.control_record import ControlType
from spark_jobs.kafka.topic_partition import TopicPartition
from spark_jobs.lake.run_folder import MESSAGES
from tests.pipeline.admitted import AdmittedRun, admit
from tests.pipeline.batches import batch, marker
from tests.pipeline.runs import CAPTURE, place_at

HELD = "lake: lake\nsources:\n  - {name: kafka, kind: broker-log, root: logs}\n"
LOGS = HELD + "topics: {orders: {gaps: publish_past}}\n"
COMPACTED = HELD + "topics: {orders: {cleanup_policy: compact, gaps: publish_past}}\n"
FIRST_LOG = "00000000000000000000.log"
FAR = 2**40


def run_of(tmp_path: Path, *logs: bytes, config: str = LOGS) -> AdmittedRun:
    """The run of orders-0, of which each of `logs` is a replica's copy."""
    place = place_at(tmp_path, config)
    for replica, log in enumerate(logs):
        place.arrive(f"replica-{replica}/orders-0/{FIRST_LOG}", log)
    return admit(place, 1)


def messages(run: AdmittedRun) -> list[str]:
    messages: list[str] = json.loads(run.lake.read(run.key(Step.ADMIT, MESSAGES)))
    return messages


def test_a_batch_out_of_place_is_corrupt_and_those_behind_it_are_taken(tmp_path: Path) -> None:
    run = run_of(tmp_path, batch(0, count=2, at=0) + batch(2, at=2 + FAR) + batch(3, count=3, at=3))
    assert run.verdicts() == ["accepted", "corrupt", "accepted"]
    assert run.offsets() == [0, None, 3]
    assert run.gaps() == [(2, 2)]
    assert run.state().end_offset == 6


def test_those_behind_it_are_held_until_a_copy_has_it_in_its_place(tmp_path: Path) -> None:
    run = run_of(tmp_path, batch(0, at=0) + batch(1, at=1 + FAR) + batch(2, at=2), config=HELD)
    assert run.verdicts() == ["accepted", "corrupt", "behind_gap"]
    assert run.state().end_offset == 1


def test_its_position_and_what_there_is_room_for_are_reported(tmp_path: Path) -> None:
    first = batch(0, count=2, at=0)
    run = run_of(tmp_path, first + batch(2, at=2 + FAR) + batch(3, at=3))
    reason = f"misplaced batch: expected base offset 2, found {2 + FAR}"
    assert run.batches()[1]["reason"] == reason
    where = f"kafka/replica-0/orders-0/{FIRST_LOG} at byte {len(first)}"
    assert any(where in message and reason in message for message in messages(run))


def test_the_last_batch_of_a_log_is_known_by_those_before_it(tmp_path: Path) -> None:
    run = run_of(tmp_path, batch(0, count=2, at=0) + batch(2, at=2 + 4))
    assert run.verdicts() == ["accepted", "corrupt"]
    assert run.state().end_offset == 2


def test_a_marker_out_of_place_leaves_its_transaction_to_no_later_marker(tmp_path: Path) -> None:
    data = batch(0, txn=True, at=0) + marker(ControlType.ABORT, at=1 + FAR)
    run = run_of(tmp_path, data + batch(1, txn=True, at=2) + marker(at=3))
    assert run.verdicts() == ["accepted", "corrupt", "accepted", "accepted"]
    (transaction,) = run.transactions()
    assert (transaction["first_offset"], transaction["gap_first_offset"]) == (0, 1)


def test_in_a_compacted_log_damage_is_where_the_batch_is_missing(tmp_path: Path) -> None:
    data = batch(0, txn=True, at=4) + marker(ControlType.ABORT, at=9 + FAR)
    run = run_of(tmp_path, data + batch(1, txn=True, at=12) + marker(at=20), config=COMPACTED)
    assert run.verdicts() == ["accepted", "corrupt", "accepted", "accepted"]
    (transaction,) = run.transactions()
    assert transaction["gap_first_offset"] == 5


def test_another_replica_has_the_batch_where_it_belongs(tmp_path: Path) -> None:
    first, second, third = (batch(n, at=n, leader_epoch=1) for n in range(3))
    # A leader that began where this one says would have overwritten all the others.
    changed = batch(1, at=0, leader_epoch=2)
    run = run_of(tmp_path, first + changed + third, first + second + third)
    assert sorted(run.verdicts()) == ["accepted"] * 3 + ["corrupt"] + ["overlap"] * 2
    assert run.gaps() == []


@pytest.mark.parametrize("cleaned", ["0\n0\n", "0\n1\norders 0 0\n"])
def test_a_replica_has_the_holes_of_its_leader_though_its_own_cleaner_has_not_been_there(
    cleaned: str, tmp_path: Path
) -> None:
    place = place_at(tmp_path, COMPACTED)
    place.arrive("replica/cleaner-offset-checkpoint", cleaned.encode())
    place.arrive(f"replica/orders-0/{FIRST_LOG}", batch(0, count=2, at=0) + batch(2, at=2 + 4))
    assert admit(place, 1).verdicts() == ["accepted", "accepted"]


def test_a_topic_that_some_brokers_cleaner_names_may_have_holes_in_every_copy(tmp_path: Path) -> None:
    place = place_at(tmp_path, LOGS)
    place.arrive("leader/cleaner-offset-checkpoint", b"0\n1\norders 0 7\n")
    place.arrive("replica/cleaner-offset-checkpoint", b"0\n0\n")
    place.arrive(f"replica/orders-0/{FIRST_LOG}", batch(2, at=2 + 4))
    assert admit(place, 1).verdicts() == ["accepted"]


def test_a_captured_coordinators_log_has_no_segments_to_be_out_of_place_in(tmp_path: Path) -> None:
    place = place_at(tmp_path, CAPTURE)
    place.arrive("dt=2024-05-01/__transaction_state-0/a", batch(0, at=7) + batch(1, at=3))
    verdicts = admit(place, 1).verdicts(TopicPartition("__transaction_state", 0))
    assert len(verdicts) == 2
    assert "corrupt" not in verdicts
