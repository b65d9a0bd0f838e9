"""A broker with a `consumer_byte_rate`, as far as a fetch needs one, and what clients send to brokers."""

import asyncio
import struct
import threading
import time
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Any, Self

import pytest
from aiokafka.conn import AIOKafkaConnection
from aiokafka.protocol.fetch import FetchRequest

from tests.sources.test_cluster_replies import batch

FETCH, METADATA, API_VERSIONS, END_OF_EPOCH = 1, 3, 18, 23
VERSIONS = ((FETCH, 4, 11), (METADATA, 5, 5), (API_VERSIONS, 0, 0), (END_OF_EPOCH, 2, 3))
SAMPLES = 11
"""`quota.window.num`: the rate is that of so many windows, of which the last is not over."""
TOPIC, NODE, EPOCH = "orders", 1, 3


@dataclass
class QuotaBroker:
    """Partitions of one topic with the same batches, behind Kafka's formula for throttling.

    A Fetch above `bytes_per_second` gets a reply without topics, and the connection is not read for
    `throttle_time_ms`, as by Kafka. `window` is that of the quota in seconds, `hangs_up` ends each connection
    after a throttled reply.
    """

    partitions: int
    batches: int
    bytes_per_second: float
    window: float
    hangs_up: bool = False
    connections: int = 0
    throttled: int = 0
    _sizes: "deque[tuple[float, int]]" = field(default_factory=deque)
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.new_event_loop)

    def __post_init__(self) -> None:
        self.log = [batch(2 * number, epoch=EPOCH) for number in range(self.batches)]

    def __enter__(self) -> Self:
        server = asyncio.start_server(self._serve, "127.0.0.1", 0)
        self._server = self._loop.run_until_complete(server)
        self.port: int = self._server.sockets[0].getsockname()[1]
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._server.close()
        self._loop.run_until_complete(_cancel_others())
        self._loop.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                size = struct.unpack(">i", await reader.readexactly(4))[0]
                reply, pause = self._reply(await reader.readexactly(size))
                writer.write(struct.pack(">i", len(reply)) + reply)
                await writer.drain()
                if pause and self.hangs_up:
                    break
                await asyncio.sleep(pause)
        except (EOFError, OSError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    def _reply(self, request: bytes) -> tuple[bytes, float]:
        """The reply, and for how long the connection is not read."""
        key, _, number, client = struct.unpack_from(">hhih", request)
        body, pause = request[10 + max(client, 0) :], 0.0
        if key == FETCH:
            found, pause = self._fetch(body)
        else:
            found = {API_VERSIONS: _versions, METADATA: self._metadata, END_OF_EPOCH: self._ends}[key](body)
        return struct.pack(">i", number) + found, pause

    def _fetch(self, body: bytes) -> tuple[bytes, float]:
        at = 25 + 4 + 2 + len(TOPIC) + 4
        partition, _, offset, _, most = struct.unpack_from(">iiqqi", body, at)
        data = b""
        for each in self.log[offset // 2 :]:
            if len(data) + len(each) > most:
                break
            data += each
        pause = self._throttle(len(data))
        if pause:
            self.throttled += 1
            return struct.pack(">ihii", int(pause * 1000) + 1, 0, 0, 0), pause
        end = 2 * self.batches
        head = struct.pack(">ihii", 0, 0, 0, 1) + _text(TOPIC) + struct.pack(">i", 1)
        return head + struct.pack(">ihqqqiii", partition, 0, end, end, 0, 0, -1, len(data)) + data, 0.0

    def _throttle(self, size: int) -> float:
        """`QuotaUtils.throttleTime`; bytes that are not sent are not counted."""
        now = time.monotonic()
        while self._sizes and self._sizes[0][0] < now - SAMPLES * self.window:
            self._sizes.popleft()
        began = self._sizes[0][0] if self._sizes else now
        elapsed = max(now - began, (SAMPLES - 1) * self.window)
        rate = (sum(each for _, each in self._sizes) + size) / elapsed
        if rate > self.bytes_per_second:
            return (rate - self.bytes_per_second) / self.bytes_per_second * elapsed
        self._sizes.append((now, size))
        return 0.0

    def _metadata(self, body: bytes) -> bytes:
        del body
        partitions = b"".join(
            struct.pack(">hiiiiiii", 0, number, NODE, 1, NODE, 1, NODE, 0)
            for number in range(self.partitions)
        )
        brokers = struct.pack(">ii", 1, NODE) + _text("127.0.0.1") + struct.pack(">ih", self.port, -1)
        topic = struct.pack(">h", 0) + _text(TOPIC) + b"\0" + struct.pack(">i", self.partitions) + partitions
        cluster = _text("abc") + struct.pack(">i", NODE)
        return struct.pack(">i", 0) + brokers + cluster + struct.pack(">i", 1) + topic

    def _ends(self, body: bytes) -> bytes:
        count, at = struct.unpack_from(">i", body, 4 + 4 + 2 + len(TOPIC))[0], 4 + 4 + 2 + len(TOPIC) + 4
        asked = [struct.unpack_from(">iii", body, at + 12 * number)[0] for number in range(count)]
        head = struct.pack(">ii", 0, 1) + _text(TOPIC) + struct.pack(">i", count)
        return head + b"".join(struct.pack(">hiiq", 0, each, EPOCH, 2 * self.batches) for each in asked)


async def _cancel_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


def _versions(body: bytes) -> bytes:
    del body
    found = b"".join(struct.pack(">hhh", *each) for each in VERSIONS)
    return struct.pack(">hi", 0, len(VERSIONS)) + found


def _text(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


@dataclass
class Requests:
    """The times of requests, and the pauses that replies asked for, by address."""

    sent: list[tuple[tuple[str, int], float]] = field(default_factory=list)
    pauses: list[tuple[tuple[str, int], float, float]] = field(default_factory=list)
    opened: list[tuple[str, int]] = field(default_factory=list)
    fetching: list[int] = field(default_factory=list)
    """How many Fetches were under way after each that was sent."""

    def within_pauses(self) -> list[float]:
        """How long after the beginning of its pause each request was sent that was sent inside of one."""
        return [
            at - began
            for address, began, pause in self.pauses
            for asked, at in self.sent
            if asked == address and began < at < began + pause
        ]


def note_requests(monkeypatch: pytest.MonkeyPatch) -> Requests:
    """Everything that connections send from now on, also when they are opened."""
    noted = Requests()
    send, connect = AIOKafkaConnection.send, AIOKafkaConnection.connect
    under_way = Counter[type]()

    async def note_send(connection: Any, request: Any, *arguments: Any, **more: Any) -> Any:
        address = connection.host, connection.port
        noted.sent.append((address, time.monotonic()))
        under_way[type(request)] += 1
        if isinstance(request, FetchRequest):
            noted.fetching.append(under_way[FetchRequest])
        try:
            reply = await send(connection, request, *arguments, **more)
        finally:
            under_way[type(request)] -= 1
        if pause := getattr(reply, "throttle_time_ms", 0):
            noted.pauses.append((address, time.monotonic(), pause / 1000))
        return reply

    async def note_connect(connection: Any) -> Any:
        noted.opened.append((connection.host, connection.port))
        return await connect(connection)

    monkeypatch.setattr(AIOKafkaConnection, "send", note_send)
    monkeypatch.setattr(AIOKafkaConnection, "connect", note_connect)
    return noted
