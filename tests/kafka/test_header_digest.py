"""The digest by headers: the same for whole files and pieces, blind only to what checksums of batches see."""

import random

import pytest

from spark_jobs.kafka.formats.batch_builder import build_batch
from spark_jobs.kafka.formats.header_digest import SAMPLE, SMALLEST_BATCH, HeaderDigest, header_digest
from spark_jobs.kafka.formats.record_batch import HEADER_SIZE
from spark_jobs.kafka.formats.records import Record

BATCHES = [build_batch(records=[Record(value=bytes(size))], base_timestamp=0) for size in (9000, 20_000, 61)]
WHOLE = b"".join(BATCHES)
FILES = {
    "nothing": b"",
    "batches": WHOLE,
    "a batch cut off": WHOLE[:-20],
    "a header cut off": WHOLE + BATCHES[0][:40],
    "a header alone": BATCHES[0][:HEADER_SIZE],
    "no batch": random.Random(1).randbytes(500),
    "no batch behind one": BATCHES[0] + bytes(300) + BATCHES[1],
    "a negative length": BATCHES[0] + BATCHES[1][:8] + b"\xff" * 4 + BATCHES[1][12:],
}


def digest(data: bytes) -> str:
    return header_digest(lambda start, length: data[start : start + length], len(data))


def in_pieces(data: bytes, seed: int) -> HeaderDigest:
    total, chance = HeaderDigest(), random.Random(seed)
    while data:
        size = chance.choice([1, 7, 60, 61, 62, 5000, 100_000])
        total.update(data[:size])
        data = data[size:]
    return total


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("seed", range(3))
def test_pieces_have_the_digest_of_the_file(name: str, seed: int) -> None:
    found = in_pieces(FILES[name], seed)
    assert found.copy().hexdigest() == found.hexdigest() == digest(FILES[name])


def test_files_with_other_headers_sizes_or_rests_have_other_digests() -> None:
    others = [*FILES.values(), WHOLE[:-1], WHOLE + b"x", WHOLE + b"y", BATCHES[1] + BATCHES[0] + BATCHES[2]]
    assert len({digest(data) for data in others}) == len(others)


def test_a_damaged_payload_is_not_seen_and_a_damaged_header_is() -> None:
    payload, header = bytearray(WHOLE), bytearray(WHOLE)
    payload[HEADER_SIZE + 5] ^= 1
    header[20] ^= 1
    assert digest(bytes(payload)) == digest(WHOLE) != digest(bytes(header))


def test_a_file_of_small_batches_has_none() -> None:
    small = BATCHES[2] * SAMPLE
    assert (digest(small), digest(small[: -len(BATCHES[2])]) != "") == ("", True)
    assert len(BATCHES[0]) > SMALLEST_BATCH
