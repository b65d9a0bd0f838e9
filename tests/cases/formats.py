"""Segments, whole and damaged, and what an unclean recovery keeps of them (facts §1.2, §6.1, §9)."""

from dataclasses import dataclass
from struct import pack

from spark_jobs.kafka.errors import BadCrc, BadLength, BadMagic, CorruptData, TornBatch, ZeroFilledTail
from spark_jobs.kafka.formats.batch_builder import build_batch
from spark_jobs.kafka.formats.legacy import write_message
from spark_jobs.kafka.formats.record_batch import Codec, assign_offset
from spark_jobs.kafka.formats.records import Record
from tests.cases.golden import COMMIT_MARKER, MESSAGE_V0, MESSAGE_V1, TRANSACTIONAL_BATCH
from tests.kafka.wrappers import write_wrapper

FIRST, SECOND = TRANSACTIONAL_BATCH, COMMIT_MARKER
GOOD = FIRST + SECOND


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentCase:
    """`batches` and `valid_bytes` are what recovery keeps; `problem` is after them, or in them."""

    title: str
    data: bytes
    batches: int
    valid_bytes: int
    problem: type[CorruptData] | None = None


def patched(data: bytes, position: int, replacement: bytes) -> bytes:
    """`data` with some bytes overwritten."""
    return data[:position] + replacement + data[position + len(replacement) :]


def after_first(title: str, tail: bytes, problem: type[CorruptData]) -> SegmentCase:
    """A valid batch, then bytes that recovery truncates."""
    return SegmentCase(title=title, data=FIRST + tail, batches=1, valid_bytes=len(FIRST), problem=problem)


def whole(title: str, data: bytes, batches: int) -> SegmentCase:
    """A segment that recovery keeps as it is."""
    return SegmentCase(title=title, data=data, batches=batches, valid_bytes=len(data))


_WRAPPER = write_wrapper(
    write_message(offset=0, key=None, value=b"a") + write_message(offset=1, key=None, value=b"b"),
    offset=7,
    codec=Codec.GZIP,
)
_EMPTY_BATCH = build_batch(records=(), base_timestamp=-1, base_offset=8, last_offset_delta=4)
_LARGE_BATCH = build_batch(records=[Record(value=bytes(200_000))], base_timestamp=0)

SEGMENT_CASES = (
    whole("an empty segment", b"", 0),
    whole("data and its marker", GOOD, 2),
    whole("an empty batch that compaction left", FIRST + _EMPTY_BATCH + SECOND, 3),
    whole(
        "messages of magic 0 and 1 before batches of magic 2", MESSAGE_V0 + MESSAGE_V1 + _WRAPPER + GOOD, 5
    ),
    whole(
        "a batch moved to another offset and leader epoch: the CRC does not cover them",
        assign_offset(FIRST, base_offset=2**62, partition_leader_epoch=9) + SECOND,
        2,
    ),
    whole("a batch larger than one piece of the checksum", _LARGE_BATCH + FIRST, 2),
    after_first("row 104: a bad CRC in the second batch", SECOND[:-1] + b"\x01", BadCrc),
    after_first(
        "a bad CRC, then good batches that recovery never sees", SECOND[:-1] + b"\x01" + GOOD, BadCrc
    ),
    after_first("a changed record count", patched(SECOND, 57, pack(">i", 2)), BadCrc),
    after_first("a changed CRC field", patched(SECOND, 17, b"\0\0\0\0"), BadCrc),
    after_first("a message of magic 1 with a bad CRC-32", MESSAGE_V1[:-1] + b"x", BadCrc),
    after_first("a message of magic 0 with a bad CRC-32", MESSAGE_V0[:-1] + b"x", BadCrc),
    after_first("magic 2 turned into 1: a CRC of the wrong kind", patched(SECOND, 16, b"\1"), BadCrc),
    after_first("row 105: zeros to the end", bytes(4096), ZeroFilledTail),
    after_first("zeros to the end, more than one piece", bytes(200_000), ZeroFilledTail),
    after_first("zeros too few to be a header", bytes(17), TornBatch),
    after_first("zeros and then something", bytes(4096) + b"\1", BadLength),
    after_first("one byte", b"\0", TornBatch),
    after_first("half a header", SECOND[:30], TornBatch),
    after_first("a batch without its last byte", SECOND[:-1], TornBatch),
    after_first("a length beyond the end", patched(SECOND, 8, pack(">i", 2**31 - 1)), TornBatch),
    after_first("a negative length", patched(SECOND, 8, pack(">i", -1)), BadLength),
    after_first("a length below the smallest message's", patched(SECOND, 8, pack(">i", 13)), BadLength),
    after_first("magic 2 with a length below 49", patched(SECOND, 8, pack(">i", 48)), BadLength),
    after_first(
        "magic 1 with a length below 22", patched(MESSAGE_V1, 8, pack(">i", 21)) + bytes(20), BadLength
    ),
    after_first("a negative magic", patched(SECOND, 16, b"\xff"), BadMagic),
    SegmentCase(
        title="magic 3 with a good CRC: recovery keeps it, no consumer reads it",
        data=patched(FIRST, 16, b"\3") + SECOND,
        batches=2,
        valid_bytes=len(GOOD),
        problem=BadMagic,
    ),
    SegmentCase(
        title="magic 3 with a good CRC before a torn tail",
        data=patched(FIRST, 16, b"\3") + SECOND + FIRST[:-1],
        batches=2,
        valid_bytes=len(GOOD),
        problem=BadMagic,
    ),
    SegmentCase(title="a tail alone", data=SECOND[:40], batches=0, valid_bytes=0, problem=TornBatch),
)
