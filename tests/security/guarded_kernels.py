"""Damaged batches through the compiled readers, in memory whose neighbours cannot be touched.

Kernels check no bounds, so a byte too far would go unnoticed elsewhere; here it ends the process. What they
say is compared with their plain twins. Prints how many logs were tried.
"""

import random
import sys
from collections.abc import Callable
from dataclasses import replace

from spark_jobs.kafka.formats.batch_builder import seal
from spark_jobs.kafka.formats.compression import compress
from spark_jobs.kafka.formats.record_batch import CODEC_MASK, HEADER_SIZE, MAGIC_V2, Codec, read_header
from spark_jobs.kafka.log.segment import scan_result
from spark_jobs.kernels import columns, record_buffers
from spark_jobs.kernels import memory as arena
from spark_jobs.kernels import scan as walk
from spark_jobs.kernels.decode import decode_batches
from spark_jobs.kernels.scan import find_intact, scan_headers
from tests.kernels.test_records import kernel_problems, kernel_rows, pure_answer
from tests.kernels.twins import kernel_scan, pure_scan
from tests.pipeline.materialise.truth import DATA
from tests.security.guarded import GuardedNumpy, guarded

LIMIT = 1 << 20
REVEALING = (0, 1, 0x7F, 0x80, 0x81, 0xFF)
Chance = random.Random


def _flip(chance: Chance, data: bytearray, at: int) -> None:
    data[at] ^= 1 << chance.randrange(8)


def _set(chance: Chance, data: bytearray, at: int) -> None:
    data[at : at + chance.choice((1, 4, 8))] = bytes([chance.choice(REVEALING)]) * chance.choice((1, 4, 8))


def _cut(chance: Chance, data: bytearray, at: int) -> None:
    del data[at : at + chance.choice((1, 7, 60, len(data)))]


def _repeat(chance: Chance, data: bytearray, at: int) -> None:
    data[at:at] = data[at : at + chance.randrange(1, 60)]


DAMAGES: tuple[Callable[[Chance, bytearray, int], None], ...] = (_flip, _set, _cut, _repeat)


def damaged(chance: Chance, data: bytes) -> bytes:
    """`data` after one to three accidents."""
    changed = bytearray(data)
    for _ in range(chance.randint(1, 3)):
        if changed:
            chance.choice(DAMAGES)(chance, changed, chance.randrange(len(changed)))
    return bytes(changed)


def sealed_anew(chance: Chance, batch: bytes) -> bytes:
    """A batch whose checksum is right over a payload, a codec or a count that is not."""
    header = read_header(batch[:HEADER_SIZE])
    codec = chance.choice(tuple(Codec))
    payload = compress(codec, damaged(chance, batch[HEADER_SIZE:]))
    if codec is not Codec.NONE and chance.random() < 0.5:
        payload = damaged(chance, payload)
    count = chance.choice((header.record_count, header.record_count, 0, 1, -1, 2**31 - 1))
    attributes = header.attributes & ~CODEC_MASK | codec
    return seal(replace(header, attributes=attributes, record_count=count), payload)


def recorded_batches() -> list[bytes]:
    files = sorted((DATA / "oracle_D" / "data").rglob("*.log"))
    datas = [file.read_bytes() for file in files]
    found = [data[batch.position : batch.end] for data in datas for batch in scan_result(data).batches]
    return [batch for batch in found if batch[16] == MAGIC_V2]


def check(data: bytes) -> None:
    """Every compiled reader on `data`, against its twin."""
    memory = guarded(data)
    for crc in (True, False):
        assert kernel_scan(scan_headers(memory, check_crc=crc)) == pure_scan(data, check_crc=crc)
    walk.walk_boundaries(memory, every=1)
    headers = scan_headers(memory, check_crc=False).columns
    find_intact(memory, headers._replace(position=headers.position + 1))
    if headers.rows and (headers.magic >= MAGIC_V2).all():
        pieces = list(decode_batches(memory, headers, budget=100, limit=LIMIT))
        assert (kernel_rows(data, pieces), kernel_problems(pieces)) == pure_answer(data, LIMIT)


def main(seed: int, logs: int) -> None:
    for module in (arena, columns, record_buffers, walk):
        module.np = GuardedNumpy()  # type: ignore[attr-defined]
    chance, batches = random.Random(seed), recorded_batches()
    for _ in range(logs):
        parts = [chance.choice(batches) for _ in range(chance.randint(1, 3))]
        parts = [sealed_anew(chance, part) if chance.random() < 0.6 else part for part in parts]
        log = b"".join(parts)
        check(damaged(chance, log) if chance.random() < 0.5 else log)
    print(logs)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
