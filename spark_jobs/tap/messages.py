"""The messages of the Kafka protocol that the tap reads: Produce, WriteTxnMarkers, ApiVersions and Metadata.

Integers are big-endian. A flexible version has unsigned varints for lengths, one more than the length, and
tagged fields at the end of every structure.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from spark_jobs.config.sources import CONSUMER_OFFSETS
from spark_jobs.kafka.errors import KafkaError, OnceoverError
from spark_jobs.kafka.formats.control_record import ControlType, write_marker

PRODUCE, METADATA, SASL_HANDSHAKE, API_VERSIONS, WRITE_TXN_MARKERS = 0, 3, 17, 18, 27
SASL_AUTHENTICATE, FLEXIBLE_SASL_AUTHENTICATE = 36, 2
FIRST_PRODUCE, LAST_PRODUCE, FLEXIBLE_PRODUCE = 3, 12, 9
"""Produce 13 names topics by id: the tap offers clients no more than 12."""
FLEXIBLE_API_VERSIONS = 3
LAST_MARKERS, FLEXIBLE_MARKERS, VERSIONED_MARKERS = 2, 1, 2
HEAD = struct.Struct(">hhi")
"""Api key, version and correlation id, with which every request begins."""
SIZE = struct.Struct(">i")
NO_ACKS = 0
ALONE = -1
"""In the place of a producer id: a produce request is captured as a whole."""
TAKEN = {KafkaError.NONE, KafkaError.DUPLICATE_SEQUENCE_NUMBER}
UNCERTAIN = {KafkaError.REQUEST_TIMED_OUT, KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND}
"""The leader has appended the batch, but the in-sync replicas had not when the request ended."""
_ANSWER = struct.Struct(">ihqq")
"""Partition, error code, base offset, log append time."""


_MARKER = struct.Struct(">qh?")
"""Producer id, producer epoch, whether it commits."""
_MARKER_ANSWER = struct.Struct(">ih")


class BadMessage(OnceoverError):
    """Bytes that are not the message that they should be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendedPart:
    """The batches of one partition in a request: as the client sent them, or a marker."""

    topic: str
    partition: int
    records: bytes | memoryview


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendRequest:
    """A produce request, or one marker of a coordinator. `acks` 0: the broker sends no response."""

    client_id: str | None
    transactional_id: str | None
    acks: int | None
    """None for a marker."""
    parts: tuple[AppendedPart, ...]

    @property
    def is_marker(self) -> bool:
        return self.acks is None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartAnswer:
    """What the broker answered for one partition."""

    topic: str
    partition: int
    error_code: int
    base_offset: int = -1
    log_append_time: int = -1

    @property
    def is_refused(self) -> bool:
        """Whether the batch is not in the broker's log; a duplicate is."""
        return self.error_code not in TAKEN | UNCERTAIN

    @property
    def is_taken(self) -> bool:
        """Whether the batch is in the broker's log for certain."""
        return self.error_code in TAKEN


class _MessageReader:
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
        # As the broker does: a client's id may be in another encoding.
        return None if size < 0 else bytes(self.taken(size)).decode(errors="replace")

    def records(self) -> memoryview | None:
        size = self.count()
        return None if size < 0 else self.taken(size)

    def tags(self) -> None:
        if self.flexible:
            for _ in range(self.varint()):
                self.varint()
                self.taken(self.varint())


def read_produce_request(frame: bytes) -> AppendRequest:
    """A request of version 3 to 12, without its size; the parts refer to `frame`."""
    try:
        return _read_produce_request(memoryview(frame))
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise BadMessage(f"not a produce request: {error}") from error


def _read_produce_request(frame: memoryview) -> AppendRequest:
    _, version, _ = HEAD.unpack_from(frame)
    header = _MessageReader(frame, flexible=False, at=HEAD.size)
    client_id = header.text()  # never compact, also in flexible versions
    body = _MessageReader(frame, flexible=version >= FLEXIBLE_PRODUCE, at=header.at)
    body.tags()
    transactional_id, acks = body.text(), body.number("h")
    body.number("i")
    parts = tuple(_produced(body))
    body.tags()
    return AppendRequest(client_id=client_id, transactional_id=transactional_id, acks=acks, parts=parts)


def _produced(body: _MessageReader) -> Iterator[AppendedPart]:
    for _ in range(body.count()):
        topic = body.text() or ""
        for _ in range(body.count()):
            partition, records = body.number("i"), body.records()
            body.tags()
            if records:
                yield AppendedPart(topic=topic, partition=partition, records=records)
        body.tags()


def read_produce_answer(frame: bytes, version: int) -> dict[int, tuple[PartAnswer, ...]]:
    """The response to a request of that version, without its size."""
    try:
        return {ALONE: tuple(_answers(memoryview(frame), version))}
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise BadMessage(f"not a produce response: {error}") from error


def _answers(frame: memoryview, version: int) -> Iterator[PartAnswer]:
    body = _MessageReader(frame, flexible=version >= FLEXIBLE_PRODUCE, at=4)
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


def _skip_record_errors(body: _MessageReader) -> None:
    for _ in range(body.count()):
        body.number("i")
        body.text()
        body.tags()
    body.text()


def read_markers(frame: bytes, timestamp: int) -> dict[int, AppendRequest]:
    """The markers of a WriteTxnMarkers request by producer id, as batches like those that a leader appends.

    Markers of `__consumer_offsets` are left out: group coordinators write there, no producer does.
    """
    try:
        return _read_markers(memoryview(frame), timestamp)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise BadMessage(f"not a WriteTxnMarkers request: {error}") from error


def _read_markers(frame: memoryview, timestamp: int) -> dict[int, AppendRequest]:
    _, version, _ = HEAD.unpack_from(frame)
    header = _MessageReader(frame, flexible=False, at=HEAD.size)
    client_id = header.text()
    body = _MessageReader(frame, flexible=version >= FLEXIBLE_MARKERS, at=header.at)
    body.tags()
    found: dict[int, AppendRequest] = {}
    for _ in range(body.count()):
        producer_id, producer_epoch, is_commit = body.fixed(_MARKER)
        partitions = list(_partitions(body))
        batch = write_marker(
            base_offset=0,
            partition_leader_epoch=-1,
            timestamp=timestamp,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            control_type=ControlType.COMMIT if is_commit else ControlType.ABORT,
            coordinator_epoch=body.number("i"),
        )
        if version >= VERSIONED_MARKERS:
            body.number("b")
        body.tags()
        parts = [AppendedPart(topic=topic, partition=each, records=batch) for topic, each in partitions]
        if parts:
            before = found[producer_id].parts if producer_id in found else ()
            found[producer_id] = AppendRequest(
                client_id=client_id, transactional_id=None, acks=None, parts=(*before, *parts)
            )
    return found


def _partitions(body: _MessageReader) -> Iterator[tuple[str, int]]:
    for _ in range(body.count()):
        topic = body.text() or ""
        found = [body.number("i") for _ in range(body.count())]
        body.tags()
        if topic != CONSUMER_OFFSETS:
            yield from ((topic, partition) for partition in found)


def read_marker_answers(frame: bytes, version: int) -> dict[int, tuple[PartAnswer, ...]]:
    """The response to a WriteTxnMarkers request of that version, by producer id."""
    try:
        body = _MessageReader(memoryview(frame), flexible=version >= FLEXIBLE_MARKERS, at=4)
        body.tags()
        found = {}
        for _ in range(body.count()):
            producer_id = body.number("q")
            found[producer_id] = tuple(_marker_answers(body))
            body.tags()
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise BadMessage(f"not a WriteTxnMarkers response: {error}") from error
    return found


def _marker_answers(body: _MessageReader) -> Iterator[PartAnswer]:
    for _ in range(body.count()):
        topic = body.text() or ""
        for _ in range(body.count()):
            partition, error_code = body.fixed(_MARKER_ANSWER)
            body.tags()
            yield PartAnswer(topic=topic, partition=partition, error_code=error_code)
        body.tags()


def is_sasl_offered(frame: bytes) -> bool:
    """Whether a SaslHandshake response is without an error: the listener wants clients to log in."""
    return frame[4:6] == b"\0\0"


def is_logged_in(frame: bytes, version: int) -> bool:
    """Whether a SaslAuthenticate response ends a login.

    With SCRAM the login continues after `r=`; with OAUTHBEARER it fails with JSON.
    """
    try:
        body = _MessageReader(memoryview(frame), flexible=version >= FLEXIBLE_SASL_AUTHENTICATE, at=4)
        body.tags()
        error_code = body.number("h")
        body.text()
        answer = bytes(body.records() or b"")
    except (struct.error, IndexError) as error:
        raise BadMessage(f"not a SaslAuthenticate response: {error}") from error
    return error_code == 0 and not answer.startswith((b"r=", b"{"))


def with_capped_produce(frame: bytes, version: int) -> bytes:
    """An ApiVersions response that offers Produce up to version 12; nothing else is changed.

    Its header is that of version 0 in all versions, so that a client can read the response of any broker.
    """
    patched = bytearray(frame)
    try:
        body = _MessageReader(memoryview(frame), flexible=version >= FLEXIBLE_API_VERSIONS, at=4)
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
        body = _MessageReader(memoryview(frame), flexible=False, at=4)
        found = []
        for _ in range(body.count()):
            body.number("i")
            found.append((body.text() or "", body.number("i")))
            body.text()
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise BadMessage(f"not a Metadata response: {error}") from error
    return found
