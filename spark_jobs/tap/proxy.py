"""The connections of the tap: frames from clients to the broker and back, unchanged and in order.

A broker answers the requests of a connection in their order, so a response belongs to the oldest request that
waits for one. Only produce requests, markers, their responses and responses to ApiVersions are held as a
whole; all other frames pass in pieces.
"""

import asyncio
import ssl
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from spark_jobs.tap.capturing import Captured, Capturing, NotJournalled, milliseconds
from spark_jobs.tap.messages import (
    ALONE,
    API_VERSIONS,
    FIRST_PRODUCE,
    HEAD,
    LAST_MARKERS,
    LAST_PRODUCE,
    METADATA_REQUEST,
    NO_ACKS,
    PRODUCE,
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
    SIZE,
    WRITE_TXN_MARKERS,
    BadMessage,
    is_logged_in,
    is_sasl_offered,
    read_brokers,
    read_marker_answers,
    read_markers,
    read_produce_answer,
    read_produce_request,
    with_capped_produce,
)

PIECE_BYTES = 256 * 2**10
CONNECT_SECONDS = 10.0
CLOSE_SECONDS = 2.0
LAST_ANSWERS_SECONDS = 10.0
"""How long the answers to requests of a client that has gone are waited for."""
STALLED_SECONDS = 30.0
"""How long a client may pause inside a request that is held; clients themselves give up after as long."""
MOST_FRAME_BYTES = 2**30
HELD = {PRODUCE, WRITE_TXN_MARKERS, API_VERSIONS, SASL_HANDSHAKE, SASL_AUTHENTICATE}
"""Requests whose responses are held as a whole."""
GONE = (ConnectionError, asyncio.IncompleteReadError, OSError, ssl.SSLError)


@dataclass(frozen=True, slots=True, kw_only=True)
class SocketAddress:
    """A host and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """A request that waits for its response; `captured` by producer id if it has markers, else one."""

    api_key: int
    version: int
    correlation: int
    captured: Mapping[int, Captured] = field(default_factory=dict)


@dataclass(slots=True)
class Listener:
    """What the tap has learned of a broker's listener from its answers."""

    wants_login: bool = False


class RequestMemory:
    """A budget of bytes for requests that are held; one that is larger than all of it is held alone."""

    def __init__(self, total: int) -> None:
        self.total = self.left = total
        self._changed = asyncio.Condition()

    @asynccontextmanager
    async def taken(self, size: int) -> AsyncIterator[None]:
        """Waits until there is room for `size` bytes."""
        size = min(size, self.total)
        async with self._changed:
            await self._changed.wait_for(lambda: self.left >= size)
            self.left -= size
        try:
            yield
        finally:
            async with self._changed:
                self.left += size
                self._changed.notify_all()


class Link:
    """A client's connection, and the one to the broker that belongs to it."""

    def __init__(
        self,
        client: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        broker: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        capturing: Capturing,
        memory: RequestMemory,
        listener: Listener,
    ) -> None:
        self._from_client, self._to_client = client
        self._from_broker, self._to_broker = broker
        self._capturing, self._memory, self._listener = capturing, memory, listener
        self._is_logged_in = False
        self._pending: deque[Pending] = deque()
        self._is_client_gone = False
        self._stopped, self._idle = asyncio.Event(), asyncio.Event()
        self._idle.set()

    def stop(self) -> None:
        """No more requests are read; those under way are still answered."""
        self._stopped.set()

    async def run(self) -> None:
        """Returns when either side has ended and all answers that can come have come."""
        requests = asyncio.create_task(self._requests())
        answers = asyncio.create_task(self._answers())
        stopped = asyncio.create_task(self._stopped.wait())
        try:
            await asyncio.wait({requests, answers, stopped}, return_when=asyncio.FIRST_COMPLETED)
            self._is_client_gone = requests.done() and not self._stopped.is_set()
            if not answers.done():
                await self._await_last_answers(answers)
        finally:
            for task in (requests, answers, stopped):
                task.cancel()
            found = await asyncio.gather(requests, answers, stopped, return_exceptions=True)
            await self._end()
        for problem in found:
            if isinstance(problem, BadMessage | NotJournalled):
                self._capturing.log(f"a connection was closed: {problem}")
            elif isinstance(problem, Exception) and not isinstance(problem, GONE):
                raise problem

    async def _await_last_answers(self, answers: asyncio.Task[None]) -> None:
        idle = asyncio.create_task(self._idle.wait())
        await asyncio.wait({idle, answers}, timeout=LAST_ANSWERS_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        idle.cancel()

    async def _end(self) -> None:
        for each in self._pending:
            for captured in each.captured.values():
                captured.answered(None)
        await asyncio.gather(closed(self._to_client), closed(self._to_broker))

    # -- requests

    async def _requests(self) -> None:
        while not self._stopped.is_set():
            size = _checked(await _read_size(self._from_client), least=HEAD.size)
            head = await self._from_client.readexactly(HEAD.size)
            api_key, version, correlation = HEAD.unpack(head)
            if api_key == PRODUCE and version > LAST_PRODUCE:
                raise BadMessage(f"Produce {version}, though the tap offers {LAST_PRODUCE} at most")
            if api_key == WRITE_TXN_MARKERS and version > LAST_MARKERS:
                raise BadMessage(f"WriteTxnMarkers {version}; the tap knows {LAST_MARKERS} at most")
            if api_key == SASL_HANDSHAKE and version == 0:
                raise BadMessage("SaslHandshake 0 is not supported; use a client of Kafka 1.0 or later")
            if api_key in (PRODUCE, WRITE_TXN_MARKERS) and self._listener.wants_login:
                self._check_login()
            if api_key == WRITE_TXN_MARKERS or (api_key == PRODUCE and version >= FIRST_PRODUCE):
                async with self._memory.taken(size):
                    await self._append(head, size)
                continue
            self._capturing.statistics.uncaptured_versions += api_key == PRODUCE
            self._expect(Pending(api_key=api_key, version=version, correlation=correlation))
            self._to_broker.write(SIZE.pack(size) + head)
            await _pass_on(self._from_client, self._to_broker, size - HEAD.size)

    def _check_login(self) -> None:
        """The broker would close the connection without an answer, and the batches be captured."""
        if not self._is_logged_in:
            raise BadMessage("batches of a client that has not logged in")

    async def _append(self, head: bytes, size: int) -> None:
        """Captures a produce request, or markers, then forwards the frame."""
        frame = head + await _read_whole(self._from_client, size - HEAD.size)
        api_key, version, correlation = HEAD.unpack(head)
        if api_key == PRODUCE:
            requests = {ALONE: read_produce_request(frame)}
        else:
            requests = read_markers(frame, milliseconds())
        captured = {key: await self._capturing.keep(each, size) for key, each in requests.items()}
        if api_key != PRODUCE or requests[ALONE].acks != NO_ACKS:
            self._expect(
                Pending(api_key=api_key, version=version, correlation=correlation, captured=captured)
            )
        self._to_broker.write(SIZE.pack(size) + frame)
        await self._to_broker.drain()

    # -- responses

    async def _answers(self) -> None:
        while True:
            size = _checked(await _read_size(self._from_broker), least=4)
            correlation = SIZE.unpack(head := await self._from_broker.readexactly(4))[0]
            if not self._pending or self._pending[0].correlation != correlation:
                raise BadMessage(f"a response with correlation id {correlation} to no request")
            pending = self._pending[0]
            if pending.api_key in HELD:
                frame = head + await self._from_broker.readexactly(size - 4)
                await self._forward(SIZE.pack(size) + self._noted(pending, frame))
            else:
                await self._forward(SIZE.pack(size) + head)
                to = None if self._is_client_gone else self._to_client
                await _pass_on(self._from_broker, to, size - 4)
            self._pending.popleft()
            if not self._pending:
                self._idle.set()

    def _expect(self, request: Pending) -> None:
        self._pending.append(request)
        self._idle.clear()

    def _noted(self, pending: Pending, frame: bytes) -> bytes:
        """The response as the client gets it, after the tap has noted the broker's answer."""
        if pending.api_key == API_VERSIONS:
            return _capped(frame, pending.version)
        if pending.api_key == SASL_HANDSHAKE:
            self._listener.wants_login |= is_sasl_offered(frame)
        if pending.api_key == SASL_AUTHENTICATE:
            self._is_logged_in |= is_logged_in(frame, pending.version)
        if pending.captured:
            read = read_produce_answer if pending.api_key == PRODUCE else read_marker_answers
            answers = read(frame, pending.version)
            for key, captured in pending.captured.items():
                captured.answered(answers.get(key))
        return frame

    async def _forward(self, data: bytes) -> None:
        if self._is_client_gone:
            return
        try:
            self._to_client.write(data)
            await self._to_client.drain()
        except GONE:
            self._is_client_gone = True


def _capped(frame: bytes, version: int) -> bytes:
    """A broker that does not know the version of the request answers with version 0 and an error."""
    is_refused = frame[4:6] == b"\0\x23"
    return with_capped_produce(frame, 0 if is_refused else version)


async def _read_size(reader: asyncio.StreamReader) -> int:
    size: int = SIZE.unpack(await reader.readexactly(SIZE.size))[0]
    return size


def _checked(size: int, *, least: int) -> int:
    if not least <= size <= MOST_FRAME_BYTES:
        raise BadMessage(f"a frame of {size} bytes; is it a Kafka client, and does it use TLS as set here?")
    return size


async def _read_whole(reader: asyncio.StreamReader, size: int) -> bytes:
    """The next `size` bytes; `TimeoutError` if the client stops sending, since others wait for its memory."""
    pieces = []
    while size:
        async with asyncio.timeout(STALLED_SECONDS):
            piece = await reader.read(min(size, PIECE_BYTES))
        if not piece:
            raise asyncio.IncompleteReadError(b"", size)
        size -= len(piece)
        pieces.append(piece)
    return b"".join(pieces)


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter | None, size: int) -> None:
    """The next `size` bytes, in pieces; read and dropped if the client has gone."""
    while size:
        piece = await reader.read(min(size, PIECE_BYTES))
        if not piece:
            raise asyncio.IncompleteReadError(b"", size)
        size -= len(piece)
        if writer is not None:
            writer.write(piece)
            await writer.drain()
    if writer is not None:
        await writer.drain()


async def closed(writer: asyncio.StreamWriter) -> None:
    """Closes the connection; one that does not end by itself is dropped."""
    writer.close()
    try:
        await asyncio.wait_for(writer.wait_closed(), CLOSE_SECONDS)
    except (*GONE, TimeoutError):
        writer.transport.abort()


async def advertised(broker: SocketAddress, tls: ssl.SSLContext | None) -> list[tuple[str, int]]:
    """The addresses that the broker's listener gives to clients."""
    reader, writer = await asyncio.wait_for(
        asyncio.open_connection(broker.host, broker.port, ssl=tls), CONNECT_SECONDS
    )
    try:
        writer.write(SIZE.pack(len(METADATA_REQUEST)) + METADATA_REQUEST)
        await writer.drain()
        size = _checked(await asyncio.wait_for(_read_size(reader), CONNECT_SECONDS), least=4)
        return read_brokers(await asyncio.wait_for(reader.readexactly(size), CONNECT_SECONDS))
    finally:
        await closed(writer)
