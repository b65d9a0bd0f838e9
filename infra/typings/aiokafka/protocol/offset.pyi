from aiokafka.protocol.api import Request

class OffsetRequest(Request):
    def __init__(
        self, replica_id: int, isolation_level: int, topics: list[tuple[str, list[tuple[int, int]]]]
    ) -> None: ...
