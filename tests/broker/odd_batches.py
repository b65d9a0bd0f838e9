"""Batches that no client sends, with a valid checksum unless stated otherwise."""

from collections.abc import Callable
from dataclasses import replace

from spark_jobs.kafka.formats.batch_builder import seal
from spark_jobs.kafka.formats.record_batch import (
    CONTROL_FLAG,
    DELETE_HORIZON_FLAG,
    HEADER_SIZE,
    MAX_TIMESTAMP_OFFSET,
    TIMESTAMP_TYPE_FLAG,
    TRANSACTIONAL_FLAG,
    RecordBatchHeader,
    read_header,
)

Change = Callable[[RecordBatchHeader], RecordBatchHeader]


def _flags(flags: int) -> Change:
    return lambda header: replace(header, attributes=header.attributes | flags)


HEADERS: dict[str, Change] = {
    "base-offset": lambda header: replace(header, base_offset=7),
    "count-above": lambda header: replace(header, record_count=header.record_count + 1),
    "count-below": lambda header: replace(header, record_count=header.record_count - 1),
    "count-zero": lambda header: replace(header, record_count=0),
    "count-negative": lambda header: replace(header, record_count=-1),
    "delta-above": lambda header: replace(header, last_offset_delta=header.last_offset_delta + 1),
    "delta-negative": lambda header: replace(header, last_offset_delta=-1),
    "no-sequence": lambda header: replace(header, base_sequence=-1),
    "negative-sequence": lambda header: replace(header, base_sequence=-5),
    "no-epoch": lambda header: replace(header, producer_epoch=-1),
    "negative-epoch": lambda header: replace(header, producer_epoch=-3),
    "negative-producer": lambda header: replace(header, producer_id=-7),
    "control": _flags(CONTROL_FLAG | TRANSACTIONAL_FLAG),
    "log-append-time": _flags(TIMESTAMP_TYPE_FLAG),
    "delete-horizon": _flags(DELETE_HORIZON_FLAG),
    "unused-attributes": _flags(0x7F80),
    "codec-5": lambda header: replace(header, attributes=header.attributes & ~7 | 5),
    "codec-7": lambda header: replace(header, attributes=header.attributes & ~7 | 7),
    "transactional": _flags(TRANSACTIONAL_FLAG),
    "leader-epoch": lambda header: replace(header, partition_leader_epoch=99),
    "max-timestamp-low": lambda header: replace(header, max_timestamp=header.max_timestamp - 1000),
    "no-timestamp": lambda header: replace(header, max_timestamp=-1),
}
"""Changed header fields; the payload stays."""


def _cut(raw: bytes, count: int) -> bytes:
    return seal(read_header(raw), raw[HEADER_SIZE:-count])


def _one_more(header: RecordBatchHeader) -> RecordBatchHeader:
    return replace(
        header, last_offset_delta=header.last_offset_delta + 1, record_count=header.record_count + 1
    )


PAYLOADS: dict[str, Callable[[bytes], bytes]] = {
    "record-missing": lambda raw: seal(_one_more(read_header(raw)), raw[HEADER_SIZE:]),
    "payload-short": lambda raw: _cut(raw, 1),
    "payload-long": lambda raw: seal(read_header(raw), raw[HEADER_SIZE:] + b"\0"),
    "payload-noise": lambda raw: seal(read_header(raw), b"\xff" * (len(raw) - HEADER_SIZE)),
}
"""Errors that a leader finds only in the records."""

DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "crc": lambda raw: raw[:17] + bytes([raw[17] ^ 0x55]) + raw[18:],
    "last-byte": lambda raw: raw[:-1] + bytes([raw[-1] ^ 0x55]),
    "max-timestamp-bit": lambda raw: _flip(raw, MAX_TIMESTAMP_OFFSET + 7),
    "magic-1": lambda raw: raw[:16] + b"\1" + raw[17:],
    "magic-3": lambda raw: raw[:16] + b"\3" + raw[17:],
    "magic-negative": lambda raw: raw[:16] + b"\xff" + raw[17:],
}
"""Bytes that do not match their checksum."""


def _flip(raw: bytes, place: int) -> bytes:
    return raw[:place] + bytes([raw[place] ^ 1]) + raw[place + 1 :]


def odd_batch(raw: bytes, kind: str) -> bytes:
    """`raw`, a good batch, made odd in the way that `kind` names."""
    if kind in HEADERS:
        return seal(HEADERS[kind](read_header(raw)), raw[HEADER_SIZE:])
    return (PAYLOADS | DAMAGES)[kind](raw)
