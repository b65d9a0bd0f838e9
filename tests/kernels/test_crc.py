import zlib

from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.kafka.formats.record_batch import crc32c
from spark_jobs.kernels.crc import (
    ALL_ONES,
    NO_LIBRARY,
    REFLECTED_POLYNOMIAL,
    Crc64Nvme,
    checksum_castagnoli,
    checksum_ieee,
    library_address,
)


def test_the_library_behind_the_pure_twin_is_found() -> None:
    assert library_address() != NO_LIBRARY


@given(st.binary(max_size=300))
def test_the_library_called_from_a_kernel_gives_the_pure_checksum(data: bytes) -> None:
    assert checksum_castagnoli(data) == crc32c(data)


@given(st.binary(max_size=300))
def test_the_table_that_replaces_the_library_gives_the_pure_checksum(data: bytes) -> None:
    assert checksum_castagnoli(data, library=NO_LIBRARY) == crc32c(data)


@given(st.binary(max_size=300))
def test_legacy_messages_have_the_checksum_of_zlib(data: bytes) -> None:
    assert checksum_ieee(data) == zlib.crc32(data)


def _bit_by_bit(data: bytes) -> str:
    crc = ALL_ONES
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (REFLECTED_POLYNOMIAL if crc & 1 else 0)
    return f"{crc ^ ALL_ONES:016x}"


def _checksum(*pieces: bytes) -> str:
    crc = Crc64Nvme()
    for piece in pieces:
        crc.update(piece)
    return crc.hexdigest()


def test_the_check_value_of_the_catalogue() -> None:
    assert _checksum(b"123456789") == "ae8b14860a799888"


@given(st.binary(max_size=100), st.binary(max_size=100))
def test_pieces_give_the_checksum_of_the_whole(one: bytes, other: bytes) -> None:
    assert _checksum(one, other) == _bit_by_bit(one + other)


def test_a_copy_goes_its_own_way() -> None:
    crc = Crc64Nvme()
    crc.update(b"head")
    head = crc.copy()
    crc.update(b"tail")
    assert (head.hexdigest(), crc.hexdigest()) == (_checksum(b"head"), _checksum(b"headtail"))
