from asyncio import Future
from collections.abc import Awaitable, Mapping
from ssl import SSLContext
from typing import Protocol

from aiokafka.abc import AbstractTokenProvider
from aiokafka.protocol.api import RequestStruct, Response

class _Request(Protocol):
    def prepare(self, versions: Mapping[int, tuple[int, int]]) -> RequestStruct: ...

class AIOKafkaConnection:
    def connected(self) -> bool: ...
    def close(self) -> Future[None] | None: ...
    def send(self, request: _Request) -> Awaitable[Response]: ...

async def create_conn(
    host: str,
    port: int,
    *,
    client_id: str = ...,
    request_timeout_ms: int = ...,
    ssl_context: SSLContext | None = ...,
    security_protocol: str = ...,
    sasl_mechanism: str | None = ...,
    sasl_plain_username: str | None = ...,
    sasl_plain_password: str | None = ...,
    sasl_oauth_token_provider: AbstractTokenProvider | None = ...,
) -> AIOKafkaConnection: ...
