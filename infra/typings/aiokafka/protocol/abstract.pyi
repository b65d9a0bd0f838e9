from io import BytesIO
from typing import Generic, TypeVar

_T = TypeVar("_T")

class AbstractType(Generic[_T]):
    @classmethod
    def encode(cls, value: _T) -> bytes: ...
    @classmethod
    def decode(cls, data: BytesIO) -> _T: ...
