"""A tap in this process, between a test as the client and a broker whose answers the test decides."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from spark_jobs.lake.file_store import FileStore
from spark_jobs.lake.object_store import ObjectStore
from spark_jobs.tap.capturing import CaptureSettings
from spark_jobs.tap.journal import JournalEntryKind, read_journal
from spark_jobs.tap.process import Route, Tap, TapSettings, TlsFiles
from spark_jobs.tap.proxy import SocketAddress, closed
from tests.broker.judge import free_port
from tests.tap.messages import framed

HOST = "127.0.0.1"
WAIT_SECONDS = 60
Answer = Callable[[bytes], Awaitable[bytes | None]]
"""The response to a request, without sizes; None closes the connection, empty sends nothing."""


@dataclass
class Stub:
    """Stands for the broker: keeps the requests that it got."""

    answer: Answer
    tls: ssl.SSLContext | None = None
    requests: list[bytes] = field(default_factory=list)
    port: int = 0
    serving: set[asyncio.Task[Any]] = field(default_factory=set)

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Stub"]:
        server = await asyncio.start_server(self._serve, HOST, 0, ssl=self.tls)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()
            await server.wait_closed()
            await asyncio.gather(*self.serving)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        self.serving.add(task)
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                request = await receive(reader)
                self.requests.append(request)
                response = await self.answer(request)
                if response is None:
                    break
                writer.write(framed(response) if response else b"")
                await writer.drain()
        await closed(writer)


@dataclass
class Client:
    """A connection to the tap."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def send(self, *frames: bytes) -> None:
        self.writer.write(b"".join(map(framed, frames)))
        await self.writer.drain()

    async def receive(self) -> bytes:
        return await receive(self.reader)

    async def ask(self, frame: bytes) -> bytes:
        await self.send(frame)
        return await self.receive()

    async def is_closed(self) -> bool:
        """Waits until the tap closes the connection."""
        with suppress(ConnectionError):
            return await asyncio.wait_for(self.reader.read(), WAIT_SECONDS) == b""
        return True


async def receive(reader: asyncio.StreamReader) -> bytes:
    """The next frame without its size."""
    size = int.from_bytes(await reader.readexactly(4), "big")
    return await asyncio.wait_for(reader.readexactly(size), WAIT_SECONDS)


@dataclass
class RunningTap:
    """A tap whose objects are below `root`; `stop` ends it and returns when all is written."""

    tap: Tap
    port: int
    place: Path
    task: asyncio.Task[None]
    clients: list[Client] = field(default_factory=list)

    async def client(self, tls: ssl.SSLContext | None = None) -> Client:
        for _ in range(500):
            with suppress(ConnectionRefusedError):
                self.clients.append(Client(*await asyncio.open_connection(HOST, self.port, ssl=tls)))
                return self.clients[-1]
            if self.task.done():
                await self.task
            await asyncio.sleep(0.02)
        raise TimeoutError("the tap does not listen")

    async def stop(self) -> None:
        self.tap._stopped.set()
        await asyncio.wait_for(self.task, WAIT_SECONDS)

    def journalled(self, kind: JournalEntryKind) -> list[Any]:
        """What is in the journals now."""
        journals = sorted((self.place / "spool").glob("*.journal"))
        return [entry for path in journals for entry in read_journal(path) if entry.kind is kind]

    def objects(self, suffix: str = ".batches") -> bytes:
        """The bytes of all objects of that kind, in the order of their names."""
        paths = sorted((self.place / "root").rglob(f"*{suffix}"), key=lambda path: path.name)
        return b"".join(path.read_bytes() for path in paths)


@asynccontextmanager
async def running_tap(
    place: Path,
    broker_port: int,
    *,
    store: ObjectStore | None = None,
    client_tls: TlsFiles | None = None,
    broker_tls: TlsFiles | None = None,
    advertise: SocketAddress | None = None,
    memory_bytes: int = 2**20,
    **capture: Any,
) -> AsyncIterator[RunningTap]:
    """Ends the tap if the test did not."""
    place.joinpath("root").mkdir(exist_ok=True)
    port = free_port()
    settings = TapSettings(
        routes=(
            Route(
                listen=SocketAddress(host=HOST, port=port),
                broker=SocketAddress(host=HOST, port=broker_port),
                advertise=advertise,
            ),
        ),
        capture=CaptureSettings(
            store=store or FileStore(str(place / "root")), spool=place / "spool", name="tap", **capture
        ),
        client_tls=client_tls,
        broker_tls=broker_tls,
        memory_bytes=memory_bytes,
    )
    tap = Tap(settings)
    running = RunningTap(tap, port, place, asyncio.create_task(tap.run()))
    try:
        yield running
    finally:
        await asyncio.gather(*(closed(client.writer) for client in running.clients))
        if not running.task.done():
            await running.stop()
