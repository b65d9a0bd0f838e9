"""The tap as a process: listens, serves connections, prints statistics, and ends cleanly on SIGTERM."""

import asyncio
import signal
import ssl
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from spark_jobs.kafka.errors import OnceoverError
from spark_jobs.tap.capturing import CaptureSettings, Capturing
from spark_jobs.tap.messages import BadMessage
from spark_jobs.tap.proxy import (
    CONNECT_SECONDS,
    GONE,
    PIECE_BYTES,
    Link,
    Listener,
    RequestMemory,
    SocketAddress,
    advertised,
    closed,
)

STOP_SECONDS = 15.0
SWITCH_SECONDS = 0.0005
"""How long the thread that writes objects may keep connections waiting for the interpreter."""
COMPLAINT_SECONDS = 10.0


class TapFailed(OnceoverError):
    """The tap cannot start with these settings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """PEM files of one side: own certificate and key, and the CA that the other side's is checked with."""

    cert: Path | None = None
    key: Path | None = None
    ca: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """Where the tap listens and the broker's listener behind it, which must advertise `advertise`."""

    listen: SocketAddress
    broker: SocketAddress
    advertise: SocketAddress | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TapSettings:
    """All routes have the same files for TLS: one for clients, and one for brokers, or one for both."""

    routes: tuple[Route, ...]
    capture: CaptureSettings
    client_tls: TlsFiles | None = None
    broker_tls: TlsFiles | None = None
    memory_bytes: int = 256 * 2**20
    statistics_seconds: float = 60.0


class Tap:
    """A running tap."""

    def __init__(self, settings: TapSettings) -> None:
        self.settings = settings
        self.capturing = Capturing(settings.capture)
        self._memory = RequestMemory(settings.memory_bytes)
        self._listeners = {route.broker: Listener() for route in settings.routes}
        self._links: dict[asyncio.Task[None], Link] = {}
        self._stopped = asyncio.Event()
        self._quiet_until = 0.0
        self._broker_tls = _client_context(settings.broker_tls)

    async def run(self) -> None:
        """Until SIGTERM or SIGINT; returns when everything captured is written."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stopped.set)
        with self.capturing.locked_spool().locked():
            self.capturing.recover()
            writing = asyncio.create_task(self.capturing.run())
            for route in self.settings.routes:
                await self._check_advertised(route)
            await self._listen(writing)
            self.capturing.stop()
            await writing
        self._print_statistics()

    async def _listen(self, writing: asyncio.Task[None]) -> None:
        servers = [await self._server(route) for route in self.settings.routes]
        statistics = asyncio.create_task(self._print_often())
        stopped = asyncio.create_task(self._stopped.wait())
        await asyncio.wait({stopped, writing}, return_when=asyncio.FIRST_COMPLETED)
        for server in servers:
            server.close()
        statistics.cancel()
        await self._end_links()
        if writing.done():
            await writing

    async def _server(self, route: Route) -> asyncio.Server:
        tls, listen = _server_context(self.settings.client_tls), route.listen
        serve = partial(self._serve, route.broker)
        try:
            server = await asyncio.start_server(serve, listen.host, listen.port, ssl=tls, limit=PIECE_BYTES)
        except OSError as error:
            raise TapFailed(f"cannot listen on {listen}: {error.strerror}") from error
        self.capturing.log(f"listening on {listen}, forwarding to {route.broker}")
        return server

    async def _end_links(self) -> None:
        for link in self._links.values():
            link.stop()
        if self._links:
            await asyncio.wait(list(self._links), timeout=STOP_SECONDS)

    async def _serve(
        self, broker: SocketAddress, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            upstream = await asyncio.wait_for(
                asyncio.open_connection(broker.host, broker.port, ssl=self._broker_tls, limit=PIECE_BYTES),
                CONNECT_SECONDS,
            )
        except (*GONE, TimeoutError) as error:
            self._complain(f"no connection to {broker}: {error}")
            await closed(writer)
            return
        link = Link((reader, writer), upstream, self.capturing, self._memory, self._listeners[broker])
        task = asyncio.current_task()
        assert task is not None
        self._links[task] = link
        self.capturing.statistics.connections += 1
        try:
            await link.run()
        finally:
            del self._links[task]

    def _complain(self, text: str) -> None:
        """Says it, but not for each attempt of each client."""
        if time.monotonic() >= self._quiet_until:
            self._quiet_until = time.monotonic() + COMPLAINT_SECONDS
            self.capturing.log(text)

    async def _check_advertised(self, route: Route) -> None:
        """Clients that are given another address than the tap's would bypass it."""
        broker, wanted = route.broker, route.advertise
        if wanted is None:
            return
        try:
            found = await advertised(broker, self._broker_tls)
        except (*GONE, TimeoutError, BadMessage) as error:
            why = "it closed the connection, as listeners with SASL do" if _is_closed(error) else str(error)
            self.capturing.log(f"{broker} was not asked for its advertised address: {why}")
            return
        if (wanted.host, wanted.port) not in found:
            named = ", ".join(f"{host}:{port}" for host, port in found) or "none"
            raise TapFailed(
                f"the listener {broker} advertises {named}, not {wanted}: clients would bypass the tap; "
                "set `advertised.listeners` of this listener to the tap's address"
            )

    async def _print_often(self) -> None:
        with suppress(asyncio.CancelledError):
            while True:
                await asyncio.sleep(self.settings.statistics_seconds)
                self._print_statistics()

    def _print_statistics(self) -> None:
        found, objects = self.capturing.statistics, self.capturing.statistics.objects
        self.capturing.log(
            f"{len(self._links)} connections, {found.requests:,} produce requests "
            f"({found.request_bytes:,} bytes), {found.markers:,} markers, "
            f"{objects.objects:,} objects ({objects.bytes:,} bytes), "
            f"{objects.refused:,} batches refused, {objects.unanswered:,} without an answer, "
            f"{found.missed:,} requests missed, {found.uncaptured_versions:,} of an old version, "
            f"{self.capturing.spooled_bytes:,} bytes in the spool"
        )


def _is_closed(error: BaseException) -> bool:
    """Whether the other side ended the connection."""
    return isinstance(error, asyncio.IncompleteReadError | ConnectionResetError)


def _server_context(files: TlsFiles | None) -> ssl.SSLContext | None:
    """For clients; with a CA they need a certificate."""
    if files is None:
        return None
    if files.cert is None:
        raise TapFailed("TLS for clients needs a certificate: give --tls-cert and --tls-key")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _load(context, files)
    if files.ca is not None:
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def _client_context(files: TlsFiles | None) -> ssl.SSLContext | None:
    """For the broker; its certificate is checked with the CA, or with those of the system."""
    if files is None:
        return None
    context = ssl.create_default_context()
    _load(context, files)
    return context


def _load(context: ssl.SSLContext, files: TlsFiles) -> None:
    try:
        if files.ca is not None:
            context.load_verify_locations(cafile=str(files.ca))
        if files.cert is not None:
            context.load_cert_chain(str(files.cert), str(files.key) if files.key else None)
    except (OSError, ssl.SSLError) as error:
        named = ", ".join(str(file) for file in (files.ca, files.cert, files.key) if file)
        raise TapFailed(f"{named}: not readable as PEM: {error}") from error


def run_tap(settings: TapSettings) -> None:
    """Runs a tap in this process until SIGTERM or SIGINT."""
    began = time.monotonic()
    sys.setswitchinterval(SWITCH_SECONDS)
    tap: list[Tap] = []

    async def main() -> None:
        tap.append(Tap(settings))
        await tap[0].run()

    asyncio.run(main())
    tap[0].capturing.log(f"ended after {time.monotonic() - began:,.0f} s")
