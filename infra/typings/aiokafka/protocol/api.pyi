from collections.abc import Mapping
from typing import Any, ClassVar

from aiokafka.protocol.types import Schema

class Response:
    API_KEY: ClassVar[int]
    API_VERSION: ClassVar[int]
    SCHEMA: ClassVar[Schema]
    @classmethod
    def decode(cls, data: Any) -> Response: ...
    def get_item(self, name: str) -> Any: ...

class RequestStruct:
    FLEXIBLE_VERSION: ClassVar[bool]
    API_KEY: ClassVar[int]
    API_VERSION: ClassVar[int]
    RESPONSE_TYPE: ClassVar[type[Response]]
    SCHEMA: ClassVar[Schema]
    def __init__(self, *values: Any) -> None: ...
    def parse_response_header(self, read_buffer: Any) -> Any: ...

class Request:
    def prepare(self, versions: Mapping[int, tuple[int, int]]) -> RequestStruct: ...
