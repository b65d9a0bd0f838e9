"""A TCP proxy between a client and a broker that is slow, loses connections, or changes replies."""

import asyncio
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from types import TracebackType
from typing import Self

LARGE = 1000
"""Replies of at least so many bytes are of Fetch."""
SIZE = struct.Struct(">i")


@dataclass
class Proxy:
    """Forwards `port` to `broker_port`.

    `change` gets each large reply and returns what is sent instead, None to hang up. `pause` is the time in
    seconds before each reply, `bytes_sent` what clients got in all, `changed` how many replies.
    """

    port: int
    broker_port: int
    change: Callable[[bytes], bytes | None] = bytes
    pause: float = 0.0
    bytes_sent: int = 0
    changed: int = 0
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.new_event_loop)
    _tasks: set["asyncio.Task[None]"] = field(default_factory=set)

    def __enter__(self) -> Self:
        started = threading.Event()
        self._thread = threading.Thread(target=self._serve, args=(started,), daemon=True)
        self._thread.start()
        started.wait()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        for task in self._tasks:
            task.cancel()
        self._server.close()
        self._loop.run_until_complete(asyncio.gather(*self._tasks, return_exceptions=True))
        self._loop.close()

    def _serve(self, started: threading.Event) -> None:
        asyncio.set_event_loop(self._loop)
        serving = asyncio.start_server(self._accept, "127.0.0.1", self.port)
        self._server = self._loop.run_until_complete(serving)
        started.set()
        self._loop.run_forever()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            from_broker, to_broker = await asyncio.open_connection("127.0.0.1", self.broker_port)
            sending = asyncio.create_task(_copy(reader, to_broker))
            self._tasks.add(sending)
            await self._reply(from_broker, writer)
        except (OSError, EOFError, asyncio.CancelledError):
            pass
        finally:
            sending.cancel()
            for each in (writer, to_broker):
                each.close()

    async def _reply(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            size = SIZE.unpack(await reader.readexactly(SIZE.size))[0]
            payload = await reader.readexactly(size)
            await asyncio.sleep(self.pause)
            changed = self.change(payload) if size >= LARGE else payload
            self.changed += changed != payload
            if changed is None:
                return
            writer.write(SIZE.pack(len(changed)) + changed)
            self.bytes_sent += len(changed)
            await writer.drain()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(1 << 16):
        writer.write(data)
        await writer.drain()


def lossy(random: Random) -> Callable[[bytes], bytes | None]:
    """Every third connection ends instead of a reply."""
    return lambda payload: None if random.random() < 0.33 else payload


def lying(random: Random) -> Callable[[bytes], bytes]:
    """Half of the replies have a byte of their batches changed."""

    def change(payload: bytes) -> bytes:
        if random.random() < 0.5:
            return payload
        changed = bytearray(payload)
        place = random.randrange(LARGE // 4, len(payload))
        changed[place] ^= 1 << random.randrange(8)
        return bytes(changed)

    return change
