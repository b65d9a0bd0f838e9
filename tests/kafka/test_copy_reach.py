"""What the age of copies proves: each condition for a hanging transaction is needed."""

from dataclasses import replace
from functools import partial

import pytest

from spark_jobs.kafka.transactions.hanging import CopyReach, appended_by
from spark_jobs.kafka.transactions.partition_transactions import PartitionTransaction, WrittenMarker
from tests.kafka.coordinator_values import NOW, ORDERS_0

SKEW, TIMEOUT, HOUR = 1000, 60_000, 3_600_000
PART = PartitionTransaction(
    topic_partition=ORDERS_0,
    producer_id=4000,
    producer_epoch=4,
    first_offset=20,
    last_offset=25,
    batch_count=2,
    first_timestamp=NOW,
    last_timestamp=NOW,
    appended_by=NOW + 5,
)
LATE = NOW + HOUR


reach = partial(CopyReach, state_partitions=2, clock_skew_ms=SKEW)


@pytest.mark.parametrize(
    ("part", "copies", "is_proven"),
    [
        pytest.param(PART, reach(recorded_until={1: LATE}), True, id="the coordinator recorded much later"),
        pytest.param(PART, reach(recorded_until={1: NOW - 1}), False, id="the coordinator's copy is older"),
        pytest.param(PART, reach(recorded_until={0: LATE}), False, id="another coordinator's copy is newer"),
        pytest.param(
            PART, reach(recorded_until={1: NOW + TIMEOUT + SKEW}), False, id="its timeout may not have passed"
        ),
        pytest.param(
            PART, reach(recorded_until={1: NOW + TIMEOUT + SKEW + 1}), True, id="its timeout has just passed"
        ),
        pytest.param(
            replace(PART, appended_by=None),
            reach(recorded_until={1: LATE}),
            False,
            id="nothing but the producer's clock says when it was appended",
        ),
        pytest.param(
            replace(PART, last_timestamp=0, appended_by=LATE - SKEW),
            reach(recorded_until={1: LATE}),
            False,
            id="backdated records, appended when the coordinator's log was copied",
        ),
        pytest.param(
            replace(PART, appended_by=None),
            reach(coordinator_started={1: LATE}, finished={ORDERS_0: LATE}),
            True,
            id="copied before the coordinator's log",
        ),
        pytest.param(
            replace(PART, appended_by=None),
            reach(coordinator_started={1: LATE}, finished={ORDERS_0: LATE + 1}),
            False,
            id="copied while the coordinator's log was",
        ),
        pytest.param(
            replace(PART, appended_by=None),
            reach(
                coordinator_started={1: LATE},
                finished={ORDERS_0: LATE},
                marked_until={ORDERS_0: LATE + SKEW + 1},
            ),
            False,
            id="the copy is newer than its times say",
        ),
    ],
)
def test_open_for_good_needs_a_coordinators_copy_that_is_newer_by_the_timeout(
    part: PartitionTransaction, copies: CopyReach, is_proven: bool
) -> None:
    assert copies.is_over(part, 1, TIMEOUT) is is_proven


def test_a_producer_that_no_coordinator_knows_needs_all_partitions_of_the_coordinators_log() -> None:
    assert reach(recorded_until={0: LATE, 1: LATE}).is_over(PART, None, TIMEOUT)
    assert not reach(recorded_until={0: LATE, 1: NOW}).is_over(PART, None, TIMEOUT)
    assert not reach(recorded_until={0: LATE}).is_over(PART, None, TIMEOUT)


def test_the_coordinators_copy_is_behind_where_the_data_shows_a_later_time() -> None:
    assert reach(recorded_until={1: NOW - 1}).is_behind(PART, 1)
    assert not reach(recorded_until={1: NOW}).is_behind(PART, 1)
    assert reach(recorded_until={1: NOW}, marked_until={ORDERS_0: NOW + 1}).is_behind(PART, 1)
    assert reach().is_behind(PART, 1)


def test_ages_are_measured_to_the_newest_time_of_any_copy() -> None:
    assert reach().newest is None
    assert reach(recorded_until={1: 5}, marked_until={ORDERS_0: 7}, started={ORDERS_0: 6}).newest == 7


def marker(offset: int, timestamp: int) -> WrittenMarker:
    return WrittenMarker(
        offset=offset, producer_epoch=0, coordinator_epoch=0, timestamp=timestamp, is_commit=True
    )


def test_a_batch_was_appended_before_every_marker_behind_it() -> None:
    assert appended_by(PART, [marker(24, 1)]) is None
    assert appended_by(PART, [marker(24, 1), marker(26, 9), marker(30, 8)]) == 8
