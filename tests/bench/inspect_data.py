"""Segments to measure `inspect` on, written by our own writer; the same bytes every time."""

import random
from dataclasses import dataclass
from pathlib import Path

from spark_jobs.kafka.formats.batch_builder import build_batch
from spark_jobs.kafka.formats.log_files import LogFileKind, segment_file_name
from spark_jobs.kafka.formats.record_batch import Codec, assign_offset
from spark_jobs.kafka.formats.records import Record

MIDNIGHT = 1_767_225_600_000
VALUE_SIZE = 200
_DISTINCT_BATCHES = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Data:
    """What a set of segments holds."""

    codec: Codec = Codec.NONE
    records_per_batch: int = 80
    """80 records of 200 bytes make 16 KiB, a producer's default batch."""
    megabytes: int = 128
    segments: int = 1

    @property
    def name(self) -> str:
        return f"{self.codec.name.lower()}-{self.records_per_batch}-{self.megabytes}mb"


def write_segments(root: Path, data: Data) -> list[Path]:
    """The segments of `data` below `root`; those that are there already are kept."""
    directory = root / f"{data.name}-0"
    directory.mkdir(parents=True, exist_ok=True)
    batches = _batches(data)
    return [_write_segment(directory, data, batches, number) for number in range(data.segments)]


def _write_segment(directory: Path, data: Data, batches: list[bytes], number: int) -> Path:
    per_segment = data.megabytes * 2**20 // (sum(map(len, batches)) // len(batches)) + 1
    first = number * per_segment
    path = directory / segment_file_name(first * data.records_per_batch, LogFileKind.LOG)
    if not path.exists():
        unfinished = path.with_suffix(".unfinished")
        with unfinished.open("wb") as file:
            for index in range(first, first + per_segment):
                offset = index * data.records_per_batch
                batch = batches[index % len(batches)]
                file.write(assign_offset(batch, base_offset=offset, partition_leader_epoch=0))
        unfinished.replace(path)
    return path


def _batches(data: Data) -> list[bytes]:
    """Batches to repeat: text that compresses about as well as JSON does."""
    chance = random.Random(7)
    words = [bytes(chance.choices(b"abcdefghij0123456789 ", k=8)) for _ in range(500)]
    return [
        build_batch(
            records=[_record(chance, words, number) for number in range(data.records_per_batch)],
            base_timestamp=MIDNIGHT,
            codec=data.codec,
        )
        for _ in range(_DISTINCT_BATCHES)
    ]


def _record(chance: random.Random, words: list[bytes], number: int) -> Record:
    key = b"key-%06d" % chance.randrange(10**6)
    value = b"".join(chance.choices(words, k=VALUE_SIZE // 8))
    return Record(offset_delta=number, timestamp_delta=number, key=key, value=value)
