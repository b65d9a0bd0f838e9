"""Producer ids are handed out in blocks (facts §7)."""

from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.sample.broker.coordinator import ProducerIds


def draw(supply: ProducerIds, count: int) -> tuple[list[int], ProducerIds]:
    drawn = []
    for _ in range(count):
        producer_id, supply = supply.allocate()
        drawn.append(producer_id)
    return drawn, supply


def test_the_first_id_is_0_and_blocks_follow_each_other() -> None:
    drawn, _ = draw(ProducerIds(), 2001)
    assert drawn == list(range(2001))


def test_what_is_left_of_a_block_is_lost_on_restart() -> None:
    _, supply = draw(ProducerIds(), 10)
    assert draw(supply.restart(), 1)[0] == [1000]


def test_a_block_fetched_ahead_is_lost_too() -> None:
    _, before = draw(ProducerIds(), 900)
    _, after = draw(ProducerIds(), 901)
    assert draw(before.restart(), 1)[0] == [1000]
    assert draw(after.restart(), 1)[0] == [2000]


def test_a_restart_without_a_request_costs_no_block() -> None:
    assert draw(ProducerIds().restart().restart(), 1)[0] == [0]


@given(steps=st.lists(st.integers(1, 1200) | st.none(), max_size=8))
def test_no_id_is_given_twice_whatever_the_restarts(steps: list[int | None]) -> None:
    supply, seen = ProducerIds(), list[int]()
    for step in steps:
        if step is None:
            supply = supply.restart()
        else:
            drawn, supply = draw(supply, step)
            seen += drawn
    assert seen == sorted(set(seen))
