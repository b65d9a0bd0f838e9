"""Wrappers of magic 0 and 1, as producers wrote them."""

from spark_jobs.kafka.formats.compression import compress
from spark_jobs.kafka.formats.legacy import write_message
from spark_jobs.kafka.formats.record_batch import NO_TIMESTAMP, Codec


def write_wrapper(
    messages: bytes,
    *,
    offset: int,
    codec: Codec,
    magic: int = 1,
    timestamp: int = NO_TIMESTAMP,
    attributes: int = 0,
) -> bytes:
    """Messages wrapped into one; `offset` is the last one's, theirs are relative unless magic is 0."""
    return write_message(
        offset=offset,
        key=None,
        value=compress(codec, messages, magic=magic),
        magic=magic,
        timestamp=timestamp,
        attributes=attributes | codec,
    )
