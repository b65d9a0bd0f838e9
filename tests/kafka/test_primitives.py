import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.kafka.errors import CorruptCoordinatorRecord, InvalidRecord
from spark_jobs.kafka.formats.primitives import (
    Reader,
    to_int64,
    write_compact_nullable_string,
    write_nullable_string,
    write_tagged_fields,
    write_unsigned_varint,
    write_varint,
    write_varlong,
)
from tests.kafka.strategies import INT32, INT64

UINT32 = st.integers(0, 2**32 - 1)


def reader(data: bytes) -> Reader:
    return Reader(data, error=CorruptCoordinatorRecord, source="key", origin=50)


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (0, "00"),
        (-1, "01"),
        (1, "02"),
        (63, "7e"),
        (-64, "7f"),
        (64, "8001"),
        (2**31 - 1, "feffffff0f"),
        (-(2**31), "ffffffff0f"),
    ],
)
def test_varints_are_zigzag(value: int, encoded: str) -> None:
    assert write_varint(value).hex() == encoded
    assert write_varlong(value).hex() == encoded
    assert reader(bytes.fromhex(encoded)).read_varint() == value


@given(INT32, INT64, UINT32)
def test_varints_are_read_as_written(int32: int, int64: int, uint32: int) -> None:
    cursor = reader(write_varint(int32) + write_varlong(int64) + write_unsigned_varint(uint32))
    assert (cursor.read_varint(), cursor.read_varlong(), cursor.read_unsigned_varint()) == (
        int32,
        int64,
        uint32,
    )
    assert cursor.remaining == 0


@pytest.mark.parametrize("data", [b"", b"\x80", b"\xff" * 5, b"\xff" * 12])
def test_a_varint_without_a_last_byte_is_refused(data: bytes) -> None:
    for read in (reader(data).read_varint, reader(data).read_unsigned_varint):
        with pytest.raises(CorruptCoordinatorRecord) as raised:
            read()
        assert (raised.value.source, raised.value.position) == ("key", 50)


def test_bits_beyond_the_type_are_lost_as_in_java() -> None:
    assert reader(b"\xff\xff\xff\xff\x7f").read_unsigned_varint() == 2**32 - 1
    assert reader(b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x7f").read_varlong() == 2**63 - 1


def test_fixed_numbers_are_big_endian_and_signed() -> None:
    cursor = reader(bytes.fromhex("fffffe00000003fffffffffffffffc01"))
    assert (cursor.read_int8(), cursor.read_int16(), cursor.read_int32()) == (-1, -2, 3)
    assert (cursor.read_int64(), cursor.read_bool()) == (-4, True)


@given(st.none() | st.text(max_size=20))
def test_strings_are_read_as_written(value: str | None) -> None:
    assert reader(write_nullable_string(value)).read_nullable_string() == value
    assert reader(write_compact_nullable_string(value)).read_compact_nullable_string() == value


@pytest.mark.parametrize("data", [b"", b"\0", b"\0\x05abc", b"\x7f\xffabc", b"\0\1\xff"])
def test_a_string_that_is_not_there_or_not_text_is_refused(data: bytes) -> None:
    with pytest.raises(CorruptCoordinatorRecord):
        reader(data).read_string()


def test_null_is_refused_where_a_string_is_required() -> None:
    with pytest.raises(CorruptCoordinatorRecord, match="null"):
        reader(b"\xff\xff").read_string()
    with pytest.raises(CorruptCoordinatorRecord, match="null"):
        reader(b"\0").read_compact_string()


def test_arrays_know_null_from_empty() -> None:
    for data, expected in ((b"\xff\xff\xff\xff", None), (b"\0\0\0\0", ()), (b"\0\0\0\2\7\x08", (7, 8))):
        cursor = reader(data)
        assert cursor.read_array(cursor.read_int8) == expected
    for data, expected in ((b"\0", None), (b"\1", ()), (b"\3\7\x08", (7, 8))):
        cursor = reader(data)
        assert cursor.read_compact_array(cursor.read_int8) == expected


@pytest.mark.parametrize("data", [b"\x7f\xff\xff\xff", b"\0\0\0\2\1"])
def test_an_array_longer_than_its_bytes_is_refused_before_it_is_made(data: bytes) -> None:
    cursor = reader(data)
    with pytest.raises(CorruptCoordinatorRecord, match="items"):
        cursor.read_array(cursor.read_int8)


@given(st.dictionaries(UINT32, st.binary(max_size=10), max_size=5))
def test_tagged_fields_are_read_as_written_known_or_not(fields: dict[int, bytes]) -> None:
    cursor = reader(write_tagged_fields(fields))
    assert cursor.read_tagged_fields() == fields
    assert cursor.remaining == 0


def test_tags_ascend() -> None:
    assert write_tagged_fields({2: b"b", 0: b"a"}) == bytes.fromhex("02000161020162")


def test_more_tagged_fields_than_bytes_are_refused() -> None:
    with pytest.raises(CorruptCoordinatorRecord):
        reader(b"\xff\xff\xff\xff\x0f").read_tagged_fields()


def test_errors_point_into_bytes_of_the_source_and_to_the_origin_of_others() -> None:
    for in_place, position in ((True, 12), (False, 10)):
        cursor = Reader(b"\0\0", error=InvalidRecord, origin=10, in_place=in_place)
        cursor.read_int16()
        with pytest.raises(InvalidRecord) as raised:
            cursor.read_int16()
        assert raised.value.position == position


@given(INT64, INT64)
def test_sums_wrap_at_64_bits(first: int, second: int) -> None:
    assert (to_int64(first + second) - first - second) % 2**64 == 0
    assert -(2**63) <= to_int64(first + second) < 2**63
