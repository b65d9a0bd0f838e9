"""Values of all kinds through the compiled encoders, in memory whose neighbours cannot be touched.

Each gets exactly the room that it asks for; a byte too far ends the process. Prints how many were tried.
"""

import random
import sys
from collections.abc import Callable

import numpy as np

from spark_jobs.kernels.memory import read_only
from spark_jobs.parquet.encoders import Encoder, Indices, Packed, PlainBytes
from spark_jobs.parquet.values import ByteValues
from tests.security.guarded import guarded, guarded_bytes

MOST = 700
Chance = random.Random


def _numbers(chance: Chance, count: int) -> Encoder:
    bits = chance.choice((32, 64))
    width = chance.randint(0, bits - 1)
    numbers = [chance.randint(-(2**width), 2**width - 1) for _ in range(count)]
    kind = np.dtype(f"<i{bits // 8}")
    return Packed(read_only(guarded(np.array(numbers, dtype=kind).tobytes()).view(kind), kind))


def _runs(chance: Chance, count: int) -> list[int]:
    """Lengths of runs, so that those that are told of as runs and those that are not take turns."""
    lengths: list[int] = []
    while sum(lengths) < count:
        lengths.append(chance.choice((1, 2, 7, 8, 9, 16, 63, 64, 65)))
    return lengths


def _indices(chance: Chance, count: int) -> Encoder:
    entries = range(chance.choice((1, 2, 3, 255, 256, 257, 70_000)))
    lengths = np.array(_runs(chance, count), dtype=np.int64)
    places = np.array([chance.choice(entries) for _ in lengths], dtype=np.int32)
    if chance.random() < 0.5:
        return Indices(entries, [0], places, lengths)
    repeated = np.repeat(places, lengths)
    return Indices(entries, [0], guarded(repeated.tobytes()).view(np.int32), None)


def _bytes(chance: Chance, count: int) -> Encoder:
    sizes = np.array([chance.choice((0, 0, 1, 7, 8, 9, 40)) for _ in range(count)], dtype=np.int32)
    starts = np.cumsum(sizes, dtype=np.int64) - sizes
    data = guarded(bytes(chance.choices(b"ab", k=int(sizes.sum()))))
    values = ByteValues(read_only(data, np.uint8), read_only(starts, np.int64), read_only(sizes, np.int32))
    return PlainBytes(values)


KINDS: tuple[Callable[[Chance, int], Encoder], ...] = (_numbers, _indices, _bytes)


def main(seed: int, tries: int) -> None:
    chance = random.Random(seed)
    for _ in range(tries):
        count = chance.randint(1, MOST)
        encoder = chance.choice(KINDS)(chance, count)
        first = chance.randrange(count)
        room = encoder.most_bytes(first, count)
        assert encoder.put(guarded_bytes(room), 0, first, count).end <= room
    print(tries)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
