"""Connections to the brokers of a cluster, one for each, opened when needed and again after they broke."""

import asyncio
import base64
import logging
import ssl
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from aiokafka.abc import AbstractTokenProvider
from aiokafka.conn import AIOKafkaConnection, OAuthAuthenticator
from aiokafka.errors import (
    AuthenticationFailedError,
    CorrelationIdError,
    IllegalSaslStateError,
    KafkaError,
    SaslAuthenticationFailed,
    UnsupportedSaslMechanismError,
    for_code,
)

from spark_jobs.config.sources import SecurityProtocol, Source
from spark_jobs.sources.cluster import wire
from spark_jobs.sources.cluster.credentials import Credentials, credentials_of
from spark_jobs.sources.cluster.cut import ClusterDenied, ClusterUnavailable, QuotaExceeded, VersionMissing

REQUEST_TIMEOUT_MS = 40_000
THROTTLED_SECONDS = 300.0
"""The longest pause for a quota, and the longest time in which a broker may throttle every Fetch."""
LONG_PAUSE_MS = 1000
"""From this pause on, Fetches that are sent together could wait for each other until they time out."""
CLIENT_ID = "onceover"
BROKEN = (KafkaError, OSError, EOFError, TimeoutError, ValueError, LookupError, struct.error)
"""What a lost, slow or damaged connection ends with; a person need not act."""
REFUSED = (
    AuthenticationFailedError,
    CorrelationIdError,
    IllegalSaslStateError,
    SaslAuthenticationFailed,
    UnsupportedSaslMechanismError,
)
OTHER_NAME = (62, 64)
"""OpenSSL's codes for a certificate of another host name or IP address."""
UNKNOWN_TOPIC, AUTHORIZATION_FAILED = 3, 29
NO_LEADER = -1
LONG_VALUE = 4096
MS = 1000
HostPort = tuple[str, int]

logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # what happened is in our own messages


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderOf:
    """The leader of a partition, and its epoch; -1 if there is none, or if the cluster does not say."""

    node: int
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicMetadata:
    """A topic as the cluster describes it; `error` is Kafka's code."""

    name: str
    topic_id: str
    error: int
    leaders: Mapping[int, LeaderOf]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterMetadata:
    """The cluster's id and its topics by name."""

    cluster_id: str
    topics: Mapping[str, TopicMetadata]


class _Token(AbstractTokenProvider):
    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials

    async def token(self) -> str:
        return await asyncio.to_thread(self._credentials.current_token)


class _OAuth(OAuthAuthenticator):
    async def step(self, payload: bytes | None) -> tuple[bytes, bool] | None:
        """Raises `SaslAuthenticationFailed` for a refused token: only then the answer has a text."""
        if payload:
            raise SaslAuthenticationFailed(payload.decode(errors="replace"))
        return await super().step(payload)


class _Reply:
    """A reply, read like a file; a long value is a view of it, not a copy."""

    def __init__(self, frame: memoryview) -> None:
        self._frame, self._position = frame, 0

    def read(self, size: int) -> bytes | memoryview:
        found = self._frame[self._position : self._position + size]
        self._position += len(found)
        return found if size > LONG_VALUE else bytes(found)


class _Frames(asyncio.BufferedProtocol):
    """Receives each reply into memory of its own, without the copies that a stream makes.

    It takes over from the protocol that a connection begins with, which still notices the end.
    """

    def __init__(self, begun: asyncio.Protocol, receive: Callable[[memoryview], None]) -> None:
        self._begun, self._receive = begun, receive
        self._size = memoryview(bytearray(4))
        self._frame, self._filled = self._size, 0

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        return self._frame[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        self._filled += nbytes
        if self._filled < len(self._frame):
            return
        frame, self._filled = self._frame, 0
        if frame is self._size:
            self._frame = np.empty(int.from_bytes(frame, "big"), np.uint8).data
        else:
            self._frame = self._size
            self._receive(frame)

    def eof_received(self) -> bool | None:
        return self._begun.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._begun.connection_lost(exc)


class _Connection(AIOKafkaConnection):
    """aiokafka's connection; replies are read without copies once it is open."""

    async def connect(self) -> None:
        await super().connect()
        self._writer.transport.set_protocol(_Frames(self._protocol, self._receive))

    def authenticator_oauth(self) -> _OAuth:
        return _OAuth(sasl_oauth_token_provider=self._sasl_oauth_token_provider)

    def _receive(self, frame: memoryview) -> None:
        """Hands a reply to the request that waits for it; a reply that does not fit ends the connection."""
        try:
            number, request, pending = self._requests[0]
            reply = _Reply(frame)
            if request.parse_response_header(reply).correlation_id != number:
                raise CorrelationIdError
            if not pending.done():
                pending.set_result(request.RESPONSE_TYPE.decode(reply))
            self._requests.popleft()
        except BROKEN as error:
            self.close(exc=error)


@dataclass(slots=True)
class Brokers:
    """A cluster as one event loop sees it; use it as a context, so that its connections are closed."""

    source: Source
    request_timeout_ms: int = REQUEST_TIMEOUT_MS
    _addresses: dict[int, HostPort] = field(default_factory=dict)
    _connections: dict[HostPort, AIOKafkaConnection] = field(default_factory=dict)
    _opening: dict[HostPort, asyncio.Lock] = field(default_factory=dict)
    _throttled_until: dict[HostPort, float] = field(default_factory=dict)
    _one_fetch: dict[int, asyncio.Lock] = field(default_factory=dict)
    _last_fetched: dict[int, float] = field(default_factory=dict)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for address in list(self._connections):
            closed = self._connections.pop(address).close()
            if closed is not None:
                await closed

    async def metadata(self, topics: Sequence[str] | None = None) -> ClusterMetadata:
        """What the first broker that answers knows; raises `ClusterUnavailable` if none does."""
        bootstrap = [_address(each) for each in self.source.bootstrap]
        problems: list[str] = []
        for address in dict.fromkeys((*self._addresses.values(), *bootstrap)):
            try:
                reply = await self._ask(address, wire.metadata(topics))
            except BROKEN as error:
                problems.append(f"{address[0]}:{address[1]}: {_named(error)}")
                continue
            return self._learn(reply)
        raise ClusterUnavailable(
            f"source {self.source.name}: no broker answers with security.protocol "
            f"{self.source.security.protocol}: {'; '.join(problems)}"
        )

    def _learn(self, reply: Mapping[str, Any]) -> ClusterMetadata:
        self._addresses = {each["node_id"]: (each["host"], each["port"]) for each in reply["brokers"]}
        topics = (_topic(each) for each in reply["topics"])
        return ClusterMetadata(
            cluster_id=reply["cluster_id"] or "", topics={topic.name: topic for topic in topics}
        )

    async def ask(self, node: int, request: Any) -> dict[str, Any]:
        """The reply of a broker; any error of `BROKEN` if it is unavailable."""
        address = self._addresses.get(node)
        if address is None:
            raise ClusterUnavailable(f"source {self.source.name}: broker {node} is not known")
        return await self._ask(address, request)

    async def fetch(self, node: int, request: Any) -> dict[str, Any]:
        """The reply of a broker to Fetch, asked again after the pause if a quota throttled the request.

        A broker answers a throttled Fetch without topics (`FetchContext.getThrottledResponse`), and reads
        nothing more from the connection in the pause. After a long one it gets one Fetch at a time.
        Raises `QuotaExceeded` if it throttles every Fetch for `THROTTLED_SECONDS`.
        """
        started = time.monotonic()
        while True:
            async with self._one_fetch.get(node, nullcontext()):
                reply = await self.ask(node, request)
            if reply["topics"] or not reply["throttle_time_ms"]:
                self._last_fetched[node] = time.monotonic()
                return reply
            if reply["throttle_time_ms"] >= LONG_PAUSE_MS:
                self._one_fetch.setdefault(node, asyncio.Lock())
            if time.monotonic() - max(started, self._last_fetched.get(node, started)) > THROTTLED_SECONDS:
                raise QuotaExceeded(
                    f"source {self.source.name}: broker {node} has throttled every Fetch for "
                    f"{THROTTLED_SECONDS:.0f} seconds. Raise consumer_byte_rate of client id {CLIENT_ID}, or "
                    "lower max_partition_fetch_bytes"
                )

    async def any(self, request: Any) -> dict[str, Any]:
        """The reply of any broker that is known."""
        return await self.ask(next(iter(self._addresses)), request)

    def drop(self, node: int) -> None:
        """Closes the connection to a broker: the next request opens another one."""
        connection = self._connections.pop(self._addresses.get(node, ("", 0)), None)
        if connection is not None:
            connection.close()

    async def _ask(self, address: HostPort, request: Any) -> dict[str, Any]:
        connection = await self._ready(address)
        try:
            reply = await connection.send(request)
        except NotImplementedError as error:
            raise VersionMissing(f"source {self.source.name}: {address[0]}:{address[1]}: {error}") from None
        except BaseException:
            # What a late answer belongs to would not be known.
            if self._connections.get(address) is connection:
                del self._connections[address]
            connection.close()
            raise
        found = wire.fields_of(reply.SCHEMA, [reply.get_item(name) for name in reply.SCHEMA.names])
        if found.get("throttle_time_ms", 0) > 0:
            until = time.monotonic() + min(found["throttle_time_ms"] / MS, THROTTLED_SECONDS)
            self._throttled_until[address] = max(until, self._throttled_until.get(address, 0.0))
        return found

    async def _ready(self, address: HostPort) -> AIOKafkaConnection:
        """A connection to a broker, outside of the pause that a quota asks for."""
        while True:
            await self._pause(address)
            connection = await self._connection(address)
            if self._throttled_until.get(address, 0.0) <= time.monotonic():
                return connection

    async def _pause(self, address: HostPort) -> None:
        """Waits for the end of the pause, which another reply may extend meanwhile."""
        while (left := self._throttled_until.get(address, 0.0) - time.monotonic()) > 0:  # noqa: ASYNC110
            await asyncio.sleep(left)

    async def _connection(self, address: HostPort) -> AIOKafkaConnection:
        async with self._opening.setdefault(address, asyncio.Lock()):
            known = self._connections.get(address)
            if known is not None and known.connected():
                return known
            await self._pause(address)
            self._connections[address] = await self._open(address)
            return self._connections[address]

    async def _open(self, address: HostPort) -> AIOKafkaConnection:
        security, credentials = self.source.security, credentials_of(self.source)
        connection = _Connection(
            *address,
            client_id=CLIENT_ID,
            request_timeout_ms=self.request_timeout_ms,
            security_protocol=security.protocol.value,
            ssl_context=_ssl_context(self.source),
            sasl_mechanism=None if security.mechanism is None else security.mechanism.value,
            sasl_plain_username=credentials.username,
            sasl_plain_password=credentials.password,
            sasl_oauth_token_provider=_Token(credentials),
        )
        try:
            await connection.connect()
        except ssl.SSLCertVerificationError as error:
            raise ClusterDenied(_distrusted(self.source, address, error)) from None
        except REFUSED as error:
            raise ClusterDenied(
                f"source {self.source.name}: {address[0]}:{address[1]} refused the connection: "
                f"{_named(error)}. Check security.protocol ({security.protocol}), the mechanism and the "
                "credentials"
            ) from None
        return connection


def _address(text: str) -> HostPort:
    host, _, port = text.rpartition(":")
    return host.strip("[]"), int(port)


def _topic(reply: Mapping[str, Any]) -> TopicMetadata:
    raw = reply.get("topic_id", wire.NO_UUID)
    return TopicMetadata(
        name=reply["topic"],
        topic_id="" if raw == wire.NO_UUID else base64.urlsafe_b64encode(raw).decode().rstrip("="),
        error=reply["error_code"],
        leaders={
            each["partition"]: LeaderOf(node=each["leader"], epoch=each.get("leader_epoch", -1))
            for each in reply["partitions"]
        },
    )


def _ssl_context(source: Source) -> ssl.SSLContext | None:
    security = source.security
    if security.protocol not in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL):
        return None
    try:
        context = ssl.create_default_context(cafile=security.ca_file)
        if security.certificate_file is not None:
            context.load_cert_chain(security.certificate_file, security.key_file)
    except (OSError, ssl.SSLError) as error:
        raise ClusterDenied(
            f"source {source.name}: the files of security (ca_file, certificate_file, key_file) cannot be "
            f"read: {_named(error)}"
        ) from None
    return context


def _distrusted(source: Source, address: HostPort, error: ssl.SSLCertVerificationError) -> str:
    """Why a broker's certificate is refused, and what to do."""
    problem = f"source {source.name}: the certificate of {address[0]}:{address[1]} is refused"
    if error.verify_code in OTHER_NAME:
        return (
            f"{problem}: it is for another host: {error.verify_message}. Use a name that is in the "
            "certificate, in bootstrap and in the brokers' advertised.listeners"
        )
    return f"{problem}: {error.verify_message}. Set security.ca_file to the certificate of its CA"


def _named(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def error_name(code: int) -> str:
    """Kafka's error as aiokafka calls it, with its code."""
    return f"{for_code(code).__name__} ({code})"
