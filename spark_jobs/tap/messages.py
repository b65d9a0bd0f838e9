"""The messages of the Kafka protocol that the tap reads: Produce, ApiVersions and Metadata.

Integers are big-endian. A flexible version has unsigned varints for lengths, one more than the length, and
tagged fields at the end of every structure.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from spark_jobs.kafka.errors import OnceoverError

PRODUCE, METADATA, SASL_HANDSHAKE, API_VERSIONS = 0, 3, 17, 18
FIRST_PRODUCE, LAST_PRODUCE, FLEXIBLE_PRODUCE = 3, 12, 9
"""Produce 13 names topics by id: the tap offers clients no more than 12."""
FLEXIBLE_API_VERSIONS = 3
HEAD = struct.Struct(">hhi")
"""Api key, version and correlation id, with which every request begins."""
SIZE = struct.Struct(">i")
NO_ACKS = 0
DUPLICATE_SEQUENCE_NUMBER = 46
_ANSWER = struct.Struct(">ihqq")
"""Partition, error code, base offset, log append time."""


class BadMessage(OnceoverError):
    """Bytes that are not the message that they should be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducedPart:
    """The batches of one partition in a produce request, as the client sent them."""

    topic: str
    partition: int
    records: memoryview


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceRequest:
    """`acks` 0: the broker sends no response."""

    client_id: str | None
    transactional_id: str | None
    acks: int
    parts: tuple[ProducedPart, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartAnswer:
    """What the broker answered for one partition."""

    topic: str
    partition: int
    error_code: int
    base_offset: int
    log_append_time: int

    @property
    def is_refused(self) -> bool:
        """Whether the batch is not in the broker's log; a duplicate is."""
        return self.error_code not in {0, DUPLICATE_SEQUENCE_NUMBER}


class _Reader:
    """Reads one message from its beginning to its end."""

    def __init__(self, data: memoryview, *, flexible: bool, at: int = 0) -> None:
        self.data, self.flexible, self.at = data, flexible, at

    def fixed(self, layout: struct.Struct) -> tuple[int, ...]:
        values = layout.unpack_from(self.data, self.at)
        self.at += layout.size
        return values

    def number(self, layout: str) -> int:
        return self.fixed(struct.Struct(f">{layout}"))[0]

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
            if shift > 28:
                raise BadMessage("an unsigned varint of more than five bytes")

    def count(self) -> int:
        """The number of elements; -1 for a null array."""
        return self.varint() - 1 if self.flexible else self.number("i")

    def taken(self, size: int) -> memoryview:
        if size < 0 or self.at + size > len(self.data):
            raise BadMessage(f"a field of {size} bytes at {self.at} of {len(self.data)}")
        self.at += size
        return self.data[self.at - size : self.at]

    def text(self) -> str | None:
        size = self.varint() - 1 if self.flexible else self.number("h")
        return None if size < 0 else bytes(self.taken(size)).decode()

    def records(self) -> memoryview | None:
        size = self.count()
        return None if size < 0 else self.taken(size)

    def tags(self) -> None:
        if self.flexible:
            for _ in range(self.varint()):
                self.varint()
                self.taken(self.varint())


def read_produce_request(frame: bytes) -> ProduceRequest:
    """A request of version 3 to 12, without its size; the parts refer to `frame`."""
    try:
        return _read_produce_request(memoryview(frame))
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise BadMessage(f"not a produce request: {error}") from error


def _read_produce_request(frame: memoryview) -> ProduceRequest:
    _, version, _ = HEAD.unpack_from(frame)
    header = _Reader(frame, flexible=False, at=HEAD.size)
    client_id = header.text()  # never compact, also in flexible versions
    body = _Reader(frame, flexible=version >= FLEXIBLE_PRODUCE, at=header.at)
    body.tags()
    transactional_id, acks = body.text(), body.number("h")
    body.number("i")
    parts = tuple(_produced(body))
    body.tags()
    return ProduceRequest(client_id=client_id, transactional_id=transactional_id, acks=acks, parts=parts)


def _produced(body: _Reader) -> Iterator[ProducedPart]:
    for _ in range(body.count()):
        topic = body.text() or ""
        for _ in range(body.count()):
            partition, records = body.number("i"), body.records()
            body.tags()
            if records:
                yield ProducedPart(topic=topic, partition=partition, records=records)
        body.tags()


def read_produce_answer(frame: bytes, version: int) -> tuple[PartAnswer, ...]:
    """The response to a request of that version, without its size."""
    try:
        return tuple(_answers(memoryview(frame), version))
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise BadMessage(f"not a produce response: {error}") from error


def _answers(frame: memoryview, version: int) -> Iterator[PartAnswer]:
    body = _Reader(frame, flexible=version >= FLEXIBLE_PRODUCE, at=4)
    body.tags()
    for _ in range(body.count()):
        topic = body.text() or ""
        for _ in range(body.count()):
            partition, error_code, base_offset, append_time = body.fixed(_ANSWER)
            if version >= 5:
                body.number("q")  # log start offset
            if version >= 8:
                _skip_record_errors(body)
            body.tags()
            yield PartAnswer(
                topic=topic,
                partition=partition,
                error_code=error_code,
                base_offset=base_offset,
                log_append_time=append_time,
            )
        body.tags()


def _skip_record_errors(body: _Reader) -> None:
    for _ in range(body.count()):
        body.number("i")
        body.text()
        body.tags()
    body.text()


def with_capped_produce(frame: bytes, version: int) -> bytes:
    """An ApiVersions response that offers Produce up to version 12; nothing else is changed.

    Its header is that of version 0 in all versions, so that a client can read the response of any broker.
    """
    patched = bytearray(frame)
    try:
        body = _Reader(memoryview(frame), flexible=version >= FLEXIBLE_API_VERSIONS, at=4)
        body.number("h")
        for _ in range(body.count()):
            api_key, _least, most = body.fixed(_VERSIONS)
            if api_key == PRODUCE and most > LAST_PRODUCE:
                struct.pack_into(">h", patched, body.at - 2, LAST_PRODUCE)
            body.tags()
    except (struct.error, IndexError) as error:
        raise BadMessage(f"not an ApiVersions response: {error}") from error
    return bytes(patched)


_VERSIONS = struct.Struct(">hhh")

METADATA_REQUEST = HEAD.pack(METADATA, 1, 1) + struct.pack(">hi", -1, 0)
"""Version 1, no client id, no topics: the brokers alone."""


def read_brokers(frame: bytes) -> list[tuple[str, int]]:
    """Host and port of all brokers in the response to `METADATA_REQUEST`."""
    try:
        body = _Reader(memoryview(frame), flexible=False, at=4)
        found = []
        for _ in range(body.count()):
            body.number("i")
            found.append((body.text() or "", body.number("i")))
            body.text()
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise BadMessage(f"not a Metadata response: {error}") from error
    return found
