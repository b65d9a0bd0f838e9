from collections.abc import Iterator

class Record:
    timestamp: int
    key: bytes | None
    value: bytes | None

class Batch:
    producer_id: int
    producer_epoch: int
    base_sequence: int
    is_control_batch: bool
    def __iter__(self) -> Iterator[Record]: ...

class MemoryRecords:
    def __init__(self, bytes_data: bytes) -> None: ...
    def next_batch(self) -> Batch | None: ...
