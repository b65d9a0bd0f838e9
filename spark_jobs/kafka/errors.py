"""The one family of errors, and Kafka's own error codes.

Outcomes are values (a `Verdict`); an exception means that bytes or a request are not what they claim to be.
Every error has its fields in its message, because only text comes back from a Spark worker, and survives
pickling. `transient` decides whether Airflow retries.
"""

from enum import IntEnum
from typing import Any, ClassVar


class KafkaError(IntEnum):
    """Error codes of the Kafka protocol that a produce or transaction request can end with (facts §0)."""

    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    CORRUPT_MESSAGE = 2
    REQUEST_TIMED_OUT = 7
    MESSAGE_TOO_LARGE = 10
    RECORD_LIST_TOO_LARGE = 18
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20
    INVALID_REQUIRED_ACKS = 21
    INVALID_TIMESTAMP = 32
    INVALID_REQUEST = 42
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45
    DUPLICATE_SEQUENCE_NUMBER = 46
    INVALID_PRODUCER_EPOCH = 47
    INVALID_TXN_STATE = 48
    INVALID_PRODUCER_ID_MAPPING = 49
    INVALID_TRANSACTION_TIMEOUT = 50
    CONCURRENT_TRANSACTIONS = 51
    TRANSACTION_COORDINATOR_FENCED = 52
    UNKNOWN_PRODUCER_ID = 59
    UNSUPPORTED_COMPRESSION_TYPE = 76
    INVALID_RECORD = 87
    UNSTABLE_OFFSET_COMMIT = 88
    PRODUCER_FENCED = 90
    TRANSACTIONAL_ID_NOT_FOUND = 105
    TRANSACTION_ABORTABLE = 120


class OnceoverError(Exception):
    """Root of every error that Onceover raises itself; its message is a sentence that a person can act on."""

    transient: ClassVar[bool] = False


class CorruptData(OnceoverError):
    """Bytes that Kafka would not have written: their position, what was expected, what was found."""

    problem: ClassVar[str] = "corrupt data"

    def __init__(self, *, source: str = "<bytes>", position: int, expected: object, found: object) -> None:
        self.source, self.position = source, position
        self.expected, self.found = str(expected), str(found)
        where = f"{source} at byte {position}"
        super().__init__(f"{where}: {self.problem}: expected {self.expected}, found {self.found}")

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (type(self), self.source, self.position, self.expected, self.found)


def _restore(cls: type[CorruptData], source: str, position: int, expected: str, found: str) -> CorruptData:
    return cls(source=source, position=position, expected=expected, found=found)


class TornBatch(CorruptData):
    """The batch would cross the end of the file: a write that never finished (facts §1.2)."""

    problem = "torn batch"


class BadLength(CorruptData):
    """A batch's length field is too small to hold a batch; zero-filled tails look like this (facts §1.2)."""

    problem = "bad batch length"


class ZeroFilledTail(BadLength):
    """Nothing but zeros to the end of the file: preallocated, or lost in a crash (facts §1.2)."""

    problem = "zero-filled tail"


class MisplacedBatch(CorruptData):
    """A base offset that the batches around it leave no space for; no checksum covers it (facts §1.3)."""

    problem = "misplaced batch"


class BadMagic(CorruptData):
    """A magic byte that no Kafka version writes."""

    problem = "bad magic byte"


class BadCrc(CorruptData):
    """The stored checksum does not match the bytes."""

    problem = "checksum mismatch"


class InvalidRecord(CorruptData):
    """Records inside a batch contradict its header or their own lengths (facts §1.4)."""

    problem = "invalid record"


class BadCompression(CorruptData):
    """A compressed payload that its codec cannot read."""

    problem = "decompression failed"


class LimitExceeded(CorruptData):
    """A size that would cost unbounded memory, refused before it is allocated."""

    problem = "limit exceeded"


class CorruptSnapshot(CorruptData):
    """A `.snapshot` file that a broker would delete (facts §1.8)."""

    problem = "corrupt producer snapshot"


class CorruptTxnIndex(CorruptData):
    """A `.txnindex` file that would make a broker recover its segment (facts §1.9)."""

    problem = "corrupt transaction index"


class CorruptIndex(CorruptData):
    """An `.index` or `.timeindex` file that a broker would rebuild (facts §1.10)."""

    problem = "corrupt index"


class CorruptCheckpoint(CorruptData):
    """A checkpoint or metadata text file that does not follow its format (facts §1.10)."""

    problem = "corrupt checkpoint"


class CorruptManifest(CorruptData):
    """A manifest of tiered storage that does not follow its format (facts §1.15)."""

    problem = "corrupt manifest"


class CorruptCoordinatorRecord(CorruptData):
    """A `__transaction_state` or `__consumer_offsets` key or value outside its schema (facts §1.12-1.14)."""

    problem = "corrupt coordinator record"


class UnloadableLog(CorruptData):
    """Whole and valid batches that keep a broker from loading their partition (facts §6.1)."""

    problem = "log that no broker loads"
