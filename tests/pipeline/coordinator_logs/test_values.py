"""The short way through coordinator values gives what the plain way gives, or leaves it to that."""

from typing import Protocol

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.kafka.errors import CorruptCoordinatorRecord
from spark_jobs.kafka.formats.transaction_state import (
    TransactionLogKey,
    TransactionLogValue,
    read_key,
    read_value,
    write_key,
    write_value,
)
from spark_jobs.pipeline.coordinator_logs.folding import key_of, value_of
from tests.kafka.coordinator_values import VALUES
from tests.kafka.strategies import damaged


class Read(Protocol):
    """A way to read a value."""

    def __call__(self, data: bytes, *, source: str) -> TransactionLogValue: ...


def outcome(read: Read, data: bytes) -> TransactionLogValue | str:
    try:
        return read(data, source="log")
    except CorruptCoordinatorRecord as error:
        return str(error)


@given(value=VALUES, version=st.integers(0, 1))
def test_what_was_written_is_read(value: TransactionLogValue, version: int) -> None:
    data = write_value(value, version)
    assert value_of(data, source="log") == read_value(data, source="log")


@given(data=damaged(VALUES.map(write_value)) | st.binary(max_size=60))
def test_damaged_values_are_read_or_refused_alike(data: bytes) -> None:
    assert outcome(value_of, data) == outcome(read_value, data)


@given(transactional_id=st.text(max_size=30))
def test_keys_are_read_alike_and_again(transactional_id: str) -> None:
    data = write_key(TransactionLogKey(transactional_id=transactional_id))
    assert key_of(data) == key_of(data) == read_key(data)


def test_keys_that_are_none_are_refused() -> None:
    with pytest.raises(CorruptCoordinatorRecord):
        key_of(b"")
