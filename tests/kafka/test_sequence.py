"""Sequence arithmetic around the wrap (facts §2.2)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.kafka.producers.sequence import (
    MAX_SEQUENCE,
    decrement_sequence,
    in_sequence,
    increment_sequence,
    is_at_or_before,
)

SEQUENCES = st.integers(0, MAX_SEQUENCE)
INT32 = st.integers(-(2**31), 2**31 - 1)


@pytest.mark.parametrize(
    ("sequence", "increment", "result"),
    [
        pytest.param(5, 5, 10, id="row-132 5 + 5"),
        pytest.param(MAX_SEQUENCE, 1, 0, id="row-132 MAX + 1"),
        pytest.param(MAX_SEQUENCE - 5, 10, 4, id="row-132 MAX - 5 + 10"),
        pytest.param(MAX_SEQUENCE - 10, 20, 9, id="facts §2.2 MAX - 10 + 20"),
    ],
)
def test_increment(sequence: int, increment: int, result: int) -> None:
    assert increment_sequence(sequence, increment) == result
    assert decrement_sequence(result, increment) == sequence


def test_row_132_zero_minus_one_is_the_largest() -> None:
    assert decrement_sequence(0, 1) == MAX_SEQUENCE


@pytest.mark.parametrize(
    ("last", "following", "result"),
    [
        (0, 1, True),
        (MAX_SEQUENCE, 0, True),
        (-1, 0, True),
        (0, 2, False),
        (MAX_SEQUENCE, 1, False),
        (1, 1, False),
    ],
)
def test_in_sequence(last: int, following: int, result: bool) -> None:
    assert in_sequence(last, following) is result


@given(INT32, INT32)
def test_forged_numbers_wrap_at_32_bits_as_in_a_broker(sequence: int, delta: int) -> None:
    for result in (increment_sequence(sequence, delta), decrement_sequence(sequence, delta)):
        assert -(2**31) <= result < 2**31


def test_a_negative_delta_overflows_the_limit_it_is_compared_with() -> None:
    assert increment_sequence(5, -3) == -2147483646


@given(SEQUENCES, SEQUENCES)
def test_decrement_undoes_increment(sequence: int, increment: int) -> None:
    assert decrement_sequence(increment_sequence(sequence, increment), increment) == sequence


@given(SEQUENCES, st.integers(0, 2**29))
def test_what_was_sent_is_before_what_follows_also_over_the_wrap(sequence: int, distance: int) -> None:
    later = increment_sequence(sequence, distance)
    assert is_at_or_before(sequence, later)
    assert is_at_or_before(later, sequence) is (distance == 0)
