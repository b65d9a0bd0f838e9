from asyncio import Future, Protocol, StreamWriter
from collections import deque
from collections.abc import Awaitable, Mapping
from ssl import SSLContext
from typing import Any
from typing import Protocol as Shape

from aiokafka.abc import AbstractTokenProvider
from aiokafka.protocol.api import RequestStruct, Response

class _Request(Shape):
    def prepare(self, versions: Mapping[int, tuple[int, int]]) -> RequestStruct: ...

class OAuthAuthenticator:
    def __init__(self, *, sasl_oauth_token_provider: AbstractTokenProvider) -> None: ...
    async def step(self, payload: bytes | None) -> tuple[bytes, bool] | None: ...

class AIOKafkaConnection:
    _sasl_oauth_token_provider: AbstractTokenProvider
    _writer: StreamWriter
    _protocol: Protocol
    _requests: deque[tuple[int, RequestStruct, Future[Response]]]
    def __init__(
        self,
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
    ) -> None: ...
    async def connect(self) -> Any: ...
    def connected(self) -> bool: ...
    def close(self, reason: object = ..., exc: BaseException | None = ...) -> Future[None] | None: ...
    def send(self, request: _Request) -> Awaitable[Response]: ...
