"""Keys and ids get the same partition as in Kafka (facts §1.16)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.kafka.partitioners import (
    coordinator_partition,
    fnv1a,
    java_string_hash,
    murmur2,
    partition_for_key,
)


@pytest.mark.parametrize(
    ("key", "expected"),
    [(b"21", -973932308), (b"foobar", -790332482), (b"abc", 479470107)],
)
def test_murmur2_equals_the_java_client(key: bytes, expected: int) -> None:
    assert murmur2(key) == expected


@pytest.mark.parametrize(
    ("key", "expected"),
    [(b"kafka", 0xD33C4E1), (b"giberish123456789", 0x77A58295), (b"1234", 0x23BDD03), (b"", 0x7EE3623B)],
)
def test_fnv1a_equals_sarama_and_librdkafka(key: bytes, expected: int) -> None:
    assert fnv1a(key) == expected


def test_a_keyed_record_goes_to_its_hash_without_sign_modulo_the_partitions() -> None:
    assert partition_for_key(b"foobar", 7) == (-790332482 & 0x7FFFFFFF) % 7


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("a", 97),
        ("hello", 99162322),
        ("polygenelubricants", -(2**31)),
        ("\N{GRINNING FACE}", 1772899),
    ],
)
def test_java_string_hash_runs_over_utf16_code_units(text: str, expected: int) -> None:
    assert java_string_hash(text) == expected


@pytest.mark.parametrize(("identifier", "expected"), [("my-txn", 45), ("polygenelubricants", 0)])
def test_an_id_belongs_to_the_partition_of_its_coordinator(identifier: str, expected: int) -> None:
    assert coordinator_partition(identifier, 50) == expected


@given(data=st.binary(max_size=64), partitions=st.integers(1, 1000))
def test_every_key_has_a_partition(data: bytes, partitions: int) -> None:
    assert 0 <= partition_for_key(data, partitions) < partitions
    assert -(2**31) <= murmur2(data) < 2**31


@given(text=st.text(max_size=64), partitions=st.integers(1, 1000))
def test_every_id_has_a_coordinator(text: str, partitions: int) -> None:
    assert 0 <= coordinator_partition(text, partitions) < partitions
