"""In captures a backfill is a truncation: what changes is rewritten under a new leader epoch, no more."""

import shutil
from pathlib import Path

import pytest

from spark_jobs.flow import Step
from spark_jobs.kafka.topic_partition import TopicPartition
from spark_jobs.lake.chain import take_back
from spark_jobs.lake.ledger import RunStatus, list_runs
from spark_jobs.operations.backfill import next_day, run_backfill_day
from spark_jobs.operations.expire import removable_files
from spark_jobs.operations.relocate import relocate
from spark_jobs.pipeline.stage.truncations import truncations
from spark_jobs.run import execute_run
from spark_jobs.sample.broker.log_loader import load
from spark_jobs.sample.broker.partition_log import PartitionLog
from tests.in_process import InProcess
from tests.operations.backfill.lakes import (
    QUIET,
    backfill,
    chain_of,
    current_run,
    log_directory,
    plan,
    request,
    run_day,
    run_tree,
    tree,
    whys,
)
from tests.pipeline.batches import NOON, batch
from tests.pipeline.runs import CAPTURE, Place, day, place_at

ORDERS, CLICKS = TopicPartition("orders", 0), TopicPartition("clicks", 0)
RUN_DATES = (1, 2, 3, 4)


def _arrive(place: Place, left_out: tuple[str, ...] = ()) -> None:
    """Four runs of two topics; a producer each."""
    for number in RUN_DATES:
        for topic, pid in (("orders", 1), ("clicks", 7)):
            path = f"dt=2024-05-0{number}/{topic}-0/a"
            if path not in left_out:
                place.arrive(path, batch(2 * number, pid=pid) + batch(2 * number + 1, pid=pid))


@pytest.fixture(scope="module")
def four_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake with four final runs."""
    place = place_at(tmp_path_factory.mktemp("lake"))
    _arrive(place)
    for number in RUN_DATES:
        run_day(place, number)
    return place.directory


@pytest.fixture
def lake(four_runs: Path, tmp_path: Path) -> Place:
    """A copy of the four runs; to a store its objects are other versions with the same bytes."""
    place = place_at(shutil.copytree(four_runs, tmp_path / "place"))
    relocate(place.settings)
    return place


def _ids(place: Place) -> list[str]:
    return [entry.run_id for entry in chain_of(place).current.values()]


def _epochs(place: Place, number: int, partition: TopicPartition = ORDERS) -> list[tuple[int, int]]:
    epochs = current_run(place, number).state(partition).leader_epochs
    return [(entry.epoch, entry.start_offset) for entry in epochs]


def _loaded(place: Place, target: Path, partition: TopicPartition = ORDERS) -> PartitionLog:
    """The accepted log as a broker that was not shut down cleanly finds it."""
    directory = log_directory(place, target)[partition]
    files = {path.name: path.read_bytes() for path in directory.iterdir()}
    return load(files, clean=False, now=NOON)


def test_a_day_that_changes_and_all_after_it_run_again_from_the_state_before(lake: Place) -> None:
    before = _ids(lake)
    lake.arrive("dt=2024-05-02/orders-0/late", batch(0, pid=9))
    assert backfill(lake, 2) == [day(2), day(3), day(4)]
    after = _ids(lake)
    assert [new == old for new, old in zip(after, before, strict=True)] == [True, False, False, False]
    assert [entry.replaces for entry in chain_of(lake).entries[-3:]] == before[1:]
    assert chain_of(lake).stale() == ()
    assert current_run(lake, 2).verdicts() == ["accepted"] * 3
    assert whys(plan(lake, 1, 4)) == {number: [] for number in RUN_DATES}


def test_the_rewritten_log_has_a_new_leader_epoch_from_the_day_on(lake: Place) -> None:
    lake.arrive("dt=2024-05-02/orders-0/late", batch(0, pid=9))
    backfill(lake, 2)
    assert [_epochs(lake, number) for number in RUN_DATES] == [[(0, 0)], *[[(0, 0), (1, 2)]] * 3]
    assert current_run(lake, 2).partitions()[ORDERS]["leader_epoch"] == 1


def test_a_partition_without_news_keeps_its_epoch_and_its_bytes(lake: Place) -> None:
    before = {number: current_run(lake, number) for number in RUN_DATES}
    lake.arrive("dt=2024-05-02/orders-0/late", batch(0, pid=9))
    backfill(lake, 2)
    for number in RUN_DATES:
        after, files = current_run(lake, number), _files_of(lake, before[number].run_id, CLICKS)
        assert after.states()[CLICKS] == before[number].states()[CLICKS]
        assert _files_of(lake, after.run_id, CLICKS) == files
        assert {name.split("/")[0] for name in files} == {"index", "admit"}


def _files_of(place: Place, run_id: str, partition: TopicPartition) -> dict[str, str]:
    """The files of one partition in a run's folder with their digests."""
    return {name: digest for name, digest in run_tree(place, run_id).items() if str(partition) in name}


def test_a_broker_can_load_the_rewritten_log(lake: Place, tmp_path: Path) -> None:
    lake.arrive("dt=2024-05-02/orders-0/late", batch(0, pid=9))
    backfill(lake, 2)
    log = _loaded(lake, tmp_path / "log")
    epochs = [(entry.epoch, entry.start_offset) for entry in log.leader_epochs.entries]
    assert (log.log_end_offset, epochs) == (9, [(0, 0), (1, 2)])
    stamps = [found.header.partition_leader_epoch for segment in log.segments for found in segment.batches]
    assert stamps == [0] * 2 + [1] * 7


def test_days_before_stay_as_they_are_to_the_byte(lake: Place) -> None:
    before = {run_id: run_tree(lake, run_id) for run_id in _ids(lake)}
    lake.arrive("dt=2024-05-03/orders-0/late", batch(0, pid=9))
    backfill(lake, 3)
    assert {run_id: run_tree(lake, run_id) for run_id in before} == before


def test_a_late_object_with_nothing_but_duplicates_changes_no_later_day_and_no_epoch(lake: Place) -> None:
    before = _ids(lake)
    lake.arrive("dt=2024-05-02/orders-0/late", batch(4) + batch(5))
    assert backfill(lake, 2) == [day(2)]
    assert [new == old for new, old in zip(_ids(lake), before, strict=True)] == [True, False, True, True]
    assert current_run(lake, 2).verdicts() == ["accepted", "accepted", "duplicate", "duplicate"]
    assert _epochs(lake, 4) == [(0, 0)]


def test_two_backfills_make_two_epochs_and_one_of_another_topic_makes_none(lake: Place) -> None:
    lake.arrive("dt=2024-05-02/orders-0/late", batch(0, pid=9))
    backfill(lake, 2)
    lake.arrive("dt=2024-05-02/clicks-0/late", batch(0, pid=9))
    backfill(lake, 2)
    assert (_epochs(lake, 4), _epochs(lake, 4, CLICKS)) == ([(0, 0), (1, 2)], [(0, 0), (1, 2)])
    lake.arrive("dt=2024-05-03/orders-0/late", batch(0, pid=10))
    backfill(lake, 3)
    assert (_epochs(lake, 4), _epochs(lake, 4, CLICKS)) == ([(0, 0), (1, 2), (2, 5)], [(0, 0), (1, 2)])


def test_a_log_that_becomes_shorter_lets_the_next_run_begin_a_new_epoch(lake: Place) -> None:
    Path(lake.settings.sources[0].root, "dt=2024-05-03/orders-0/a").unlink()
    assert backfill(lake, 3, drop_vanished=True) == [day(3), day(4)]
    assert ORDERS not in current_run(lake, 3).partitions()
    assert current_run(lake, 4).offsets() == [4, 5]
    assert [_epochs(lake, number) for number in (3, 4)] == [[(0, 0)], [(0, 0), (1, 4)]]


def test_offsets_that_were_given_and_taken_back_get_a_new_epoch_in_a_run_to_come(lake: Place) -> None:
    Path(lake.settings.sources[0].root, "dt=2024-05-04/orders-0/a").unlink()
    assert backfill(lake, 4, drop_vanished=True) == [day(4)]
    lake.arrive("dt=2024-05-05/orders-0/a", batch(0, pid=9))
    run_day(lake, 5)
    assert (current_run(lake, 5).offsets(), _epochs(lake, 5)) == ([6], [(0, 0), (1, 6)])


def test_chosen_topics_leave_late_objects_of_others_to_the_next_run(lake: Place) -> None:
    lake.arrive("dt=2024-05-02/orders-0/late", batch(0, pid=9))
    lake.arrive("dt=2024-05-02/clicks-0/late", batch(0, pid=9))
    backfill(lake, 2, topics=("ord*",))
    assert current_run(lake, 2).verdicts(CLICKS) == ["accepted", "accepted"]
    assert _epochs(lake, 4, CLICKS) == [(0, 0)]
    run_day(lake, 5)
    assert current_run(lake, 5).verdicts(CLICKS) == ["accepted"]


def test_an_object_that_a_later_run_had_taken_moves_and_is_taken_once(tmp_path: Path) -> None:
    place = place_at(tmp_path)
    late = "dt=2024-05-02/orders-0/a"
    _arrive(place, left_out=(late,))
    for number in (1, 2, 3):
        if number == 3:
            place.arrive(late, batch(4) + batch(5))
        run_day(place, number)
    assert current_run(place, 3).verdicts() == ["accepted"] * 4
    assert backfill(place, 2) == [day(2), day(3)]
    assert [current_run(place, number).verdicts() for number in (2, 3)] == [["accepted"] * 2] * 2


def test_a_day_that_never_ran_is_put_in_and_later_days_give_its_objects_back(tmp_path: Path) -> None:
    place, straight = place_at(tmp_path / "gap"), place_at(tmp_path / "straight")
    for each, numbers in ((place, (1, 3, 4)), (straight, RUN_DATES)):
        _arrive(each)
        for number in numbers:
            run_day(each, number)
    assert backfill(place, 2) == [day(2), day(3), day(4)]
    for number in RUN_DATES:
        assert current_run(place, number).verdicts() == current_run(straight, number).verdicts()
        assert current_run(place, number).offsets() == current_run(straight, number).offsets()
    assert _epochs(place, 4) == [(0, 0), (1, 2)]


def test_changed_bytes_under_an_old_name_replace_the_old_ones(lake: Place) -> None:
    lake.arrive("dt=2024-05-02/orders-0/a", batch(4) + batch(5, value=b"right"))
    backfill(lake, 2)
    rows = current_run(lake, 2).batches()
    assert [row["verdict"] for row in rows] == ["accepted", "accepted"]
    assert current_run(lake, 3).verdicts() == ["accepted", "accepted"]


def test_the_ledger_says_why_and_what_was_replaced(lake: Place) -> None:
    lake.arrive("dt=2024-05-04/orders-0/late", batch(0, pid=9))
    backfill(lake, 4, reason="a gateway was late")
    lines = [line for line in list_runs(lake.lake) if line.day == day(4)]
    assert [(line.status, line.reason) for line in lines] == [
        (RunStatus.REPLACED, ""),
        (RunStatus.FINAL, "backfill of 2024-05-04: a gateway was late"),
    ]


def test_a_backfill_that_has_nothing_to_do_changes_nothing(lake: Place) -> None:
    before = tree(lake.directory)
    assert backfill(lake, 1, 4) == []
    assert tree(lake.directory) == before


def test_a_finished_day_asked_for_again_step_by_step_is_left_as_it_is(lake: Place) -> None:
    lake.arrive("dt=2024-05-04/orders-0/late", batch(0, pid=9))
    asked, spark = request(4), InProcess()
    for step, more_steps_follow in (
        (Step.STAGE, True),
        (Step.INDEX, True),
        (Step.REBUILD, True),
        (Step.ADMIT, False),
    ):
        outcome = execute_run(
            lake.settings,
            day(4),
            until=step,
            spark=spark,
            progress=QUIET,
            more_steps_follow=more_steps_follow,
            backfill=asked,
        )
    assert outcome.is_final
    again = execute_run(lake.settings, day(4), until=Step.ADMIT, spark=spark, progress=QUIET, backfill=asked)
    assert (again.run_id, again.worked) == (outcome.run_id, False)


def test_an_interrupted_backfill_continues_with_the_day_that_it_was_at(lake: Place) -> None:
    lake.arrive("dt=2024-05-02/orders-0/late", batch(0, pid=9))
    asked = request(2)
    for until in (Step.ADMIT, Step.INDEX):
        found = next_day(lake.settings, asked)
        assert found is not None
        run_backfill_day(lake.settings, found, asked, spark=InProcess(), progress=QUIET, until=until)
    assert next_day(lake.settings, asked) == day(3)
    (half,) = [line for line in list_runs(lake.lake) if line.status is RunStatus.DONE]
    assert backfill(lake, 2) == [day(3), day(4)]
    assert current_run(lake, 3).run_id == half.run_id
    assert chain_of(lake).stale() == ()


def test_with_parking_a_batch_that_comes_late_to_its_own_day_lets_others_in_there(tmp_path: Path) -> None:
    place = place_at(tmp_path, CAPTURE + "    on_gap: park\n")
    place.arrive("dt=2024-05-01/orders-0/a", batch(0))
    place.arrive("dt=2024-05-02/orders-0/a", batch(2))
    place.arrive("dt=2024-05-03/orders-0/a", batch(3))
    for number in (1, 2, 3):
        run_day(place, number)
    assert current_run(place, 3).state().end_offset == 1
    place.arrive("dt=2024-05-02/orders-0/b", batch(1))
    assert backfill(place, 2) == [day(2), day(3)]
    assert [current_run(place, number).state().end_offset for number in (2, 3)] == [3, 4]
    assert _epochs(place, 3) == [(0, 0)]  # these offsets were not assigned before


def test_a_changed_configuration_rewrites_only_what_comes_out_otherwise(lake: Place) -> None:
    changed = place_at(lake.directory, CAPTURE + "kafka: {producer_id_expiration_ms: 86400001}\n")
    assert backfill(changed, 2) == [day(2)]
    assert _epochs(changed, 4) == [(0, 0)]


def test_a_run_that_was_taken_back_and_comes_out_otherwise_has_a_new_epoch(lake: Place) -> None:
    take_back(lake.lake, chain_of(lake), current_run(lake, 4).run_id)
    changed = place_at(lake.directory, CAPTURE + "kafka: {producer_id_expiration_ms: 86400001}\n")
    changed.arrive("dt=2024-05-04/orders-0/late", batch(0, pid=9))
    run_day(changed, 4)
    assert (_epochs(changed, 4), _epochs(changed, 4, CLICKS)) == ([(0, 0), (1, 6)], [(0, 0)])


def test_a_run_that_was_taken_back_and_is_the_same_is_the_same_run(tmp_path: Path) -> None:
    place = place_at(tmp_path)
    place.arrive("dt=2024-05-01/orders-0/a", batch(0))
    run_id = run_day(place, 1).run_id
    take_back(place.lake, chain_of(place), run_id)
    place.arrive("dt=2024-05-01/orders-0/late", batch(0, pid=9))
    assert run_day(place, 1).run_id == run_id


def test_a_day_whose_run_has_expired_is_rewritten_from_where_it_differs_as_before(lake: Place) -> None:
    before = truncations(lake.lake, chain_of(lake), day(2))
    for run_id in _ids(lake):
        removable = removable_files(lake.lake, run_id, is_current=True, is_replayable=False, live=())
        for file in tuple(removable):
            lake.lake.delete(file.key)
    assert truncations(lake.lake, chain_of(lake), day(2)) == before
    assert [each.segments != () for each in before] == [True, True]
