import zlib

from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.kafka.formats.record_batch import crc32c
from spark_jobs.kernels.crc import NO_LIBRARY, checksum_castagnoli, checksum_ieee, library_address


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
