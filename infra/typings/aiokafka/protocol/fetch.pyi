from aiokafka.protocol.api import Request

class FetchRequest(Request):
    def __init__(
        self,
        max_wait_time: int,
        min_bytes: int,
        max_bytes: int,
        isolation_level: int,
        topics: list[tuple[str, list[tuple[int, int, int]]]],
    ) -> None: ...
