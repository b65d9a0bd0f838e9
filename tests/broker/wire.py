"""Raw requests, for what no client would send: the bytes of a batch go to the broker exactly as given."""

import socket
import struct
from dataclasses import dataclass, field
from typing import Any

PRODUCE = 0
LIST_OFFSETS = 2
FIND_COORDINATOR = 10
DELETE_RECORDS = 21
INIT_PRODUCER_ID = 22
ADD_PARTITIONS_TO_TXN = 24
END_TXN = 26
WRITE_TXN_MARKERS = 27
DESCRIBE_PRODUCERS = 61
DESCRIBE_TRANSACTIONS = 65
LIST_TRANSACTIONS = 66
FIRST_FLEXIBLE = {
    PRODUCE: 9,
    LIST_OFFSETS: 6,
    FIND_COORDINATOR: 3,
    INIT_PRODUCER_ID: 2,
    ADD_PARTITIONS_TO_TXN: 3,
    END_TXN: 3,
    WRITE_TXN_MARKERS: 1,
    DELETE_RECORDS: 2,
    DESCRIBE_PRODUCERS: 0,
    DESCRIBE_TRANSACTIONS: 0,
    LIST_TRANSACTIONS: 0,
}
CLIENT_ID = "oracle"


def uvarint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out) + bytes([value])


@dataclass
class Writer:
    """Builds one request body in the classic or the flexible encoding."""

    flexible: bool
    out: bytearray = field(default_factory=bytearray)

    def put(self, layout: str, *values: Any) -> "Writer":
        self.out += struct.pack(">" + layout, *values)
        return self

    def text(self, value: str | None) -> "Writer":
        raw = None if value is None else value.encode()
        if self.flexible:
            self.out += uvarint(0) if raw is None else uvarint(len(raw) + 1) + raw
        else:
            self.out += struct.pack(">h", -1) if raw is None else struct.pack(">h", len(raw)) + raw
        return self

    def data(self, raw: bytes) -> "Writer":
        self.out += (uvarint(len(raw) + 1) if self.flexible else struct.pack(">i", len(raw))) + raw
        return self

    def count(self, number: int) -> "Writer":
        self.out += uvarint(number + 1) if self.flexible else struct.pack(">i", number)
        return self

    def tags(self) -> "Writer":
        if self.flexible:
            self.out += b"\0"
        return self


@dataclass
class Reader:
    """Takes one response body apart."""

    raw: bytes
    flexible: bool
    at: int = 0

    def take(self, layout: str) -> Any:
        values = struct.unpack_from(">" + layout, self.raw, self.at)
        self.at += struct.calcsize(">" + layout)
        return values[0] if len(values) == 1 else values

    def _uvarint(self) -> int:
        value = shift = 0
        while True:
            byte = self.raw[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def count(self) -> int:
        return self._uvarint() - 1 if self.flexible else int(self.take("i"))

    def text(self) -> str | None:
        size = self._uvarint() - 1 if self.flexible else int(self.take("h"))
        if size < 0:
            return None
        self.at += size
        return self.raw[self.at - size : self.at].decode()

    def tags(self) -> None:
        if self.flexible:
            for _ in range(self._uvarint()):
                self._uvarint()
                self.at += self._uvarint()


class Connection:
    """One socket to the broker; `ask` sends a frame and gives both frames back without their lengths."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self.correlation = 1

    def close(self) -> None:
        self.socket.close()

    def ask(
        self, api_key: int, version: int, body: Writer, *, answered: bool = True
    ) -> tuple[bytes, bytes | None]:
        self.correlation += 1
        name = CLIENT_ID.encode()
        head = struct.pack(">hhih", api_key, version, self.correlation, len(name)) + name
        frame = head + (b"\0" if body.flexible else b"") + bytes(body.out)
        self.socket.sendall(struct.pack(">i", len(frame)) + frame)
        return frame, self._receive(struct.unpack(">i", self._receive(4))[0]) if answered else None

    def _receive(self, size: int) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            part = self.socket.recv(size - len(parts))
            if not part:
                raise ConnectionError("the broker closed the connection")
            parts += part
        return bytes(parts)


def body(api_key: int, version: int) -> Writer:
    return Writer(flexible=version >= FIRST_FLEXIBLE[api_key])


def reply_reader(api_key: int, version: int, frame: bytes) -> Reader:
    """A reader behind the response header."""
    reader = Reader(raw=frame, flexible=version >= FIRST_FLEXIBLE[api_key], at=4)
    reader.tags()
    return reader
