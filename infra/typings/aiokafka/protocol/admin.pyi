from aiokafka.protocol.api import Request

class DescribeConfigsRequest(Request):
    def __init__(self, resources: list[tuple[int, str, list[str]]]) -> None: ...
