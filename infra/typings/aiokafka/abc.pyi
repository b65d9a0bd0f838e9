from abc import ABC, abstractmethod

class AbstractTokenProvider(ABC):
    @abstractmethod
    async def token(self) -> str: ...
