"""`.rsm-manifest` of Aiven's tiered storage plugin (facts §1.15): where the chunks of a segment are."""

import base64
import json
from dataclasses import dataclass, field
from struct import Struct, error
from typing import Any

from spark_jobs.kafka.errors import BadCompression, CorruptManifest, LimitExceeded
from spark_jobs.kafka.formats.codecs.zstd import decompress
from spark_jobs.kafka.formats.limits import OutputLimit

VERSION = "1"
IV_BYTES, TAG_BYTES = 12, 16
MOST_CHUNKS = 2**24
"""More than a segment of 2 GiB has in chunks of 128 bytes."""
_INT = Struct(">i")
_LIST_HEADER = Struct(">iiB")  # count, base, bytes per value


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """A part of a segment: `size` bytes at `position` of the object, which decode to `original_size`."""

    number: int
    position: int
    size: int
    original_size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexRange:
    """An index as it is stored in `.indexes`; without `size` it is empty."""

    position: int = 0
    size: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Encryption:
    """The data key as the RSA key `key_id` encrypted it, and the additional data of each chunk's tag."""

    key_id: str
    data_key: bytes = field(repr=False)
    aad: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentManifest:
    """An upload: its segment's place in the log and its chunks; `end_offset` is inclusive."""

    topic: str
    partition: int
    topic_id: str
    segment_id: str
    start_offset: int
    end_offset: int
    original_size: int
    chunks: tuple[Chunk, ...]
    is_compressed: bool
    encryption: Encryption | None
    snapshot: IndexRange
    leader_epochs: IndexRange
    txn_index: IndexRange

    def original_size_of(self, index: IndexRange) -> int:
        """Bytes of an index once it is decrypted: indexes are never compressed."""
        return index.size - (IV_BYTES + TAG_BYTES if self.encryption is not None and index.size else 0)


def read_segment_manifest(data: bytes, *, source: str = "<bytes>") -> SegmentManifest:
    """The manifest in `data`; `source` names it in messages."""
    try:
        parsed = json.loads(data)
        if parsed["version"] != VERSION:
            raise _corrupt(source, f"version {VERSION}", parsed["version"])
        return _manifest(parsed, source)
    except (KeyError, TypeError, ValueError, AttributeError, error, BadCompression, LimitExceeded) as problem:
        raise _corrupt(source, "a segment manifest", f"{type(problem).__name__}: {problem}"[:120]) from None


def _corrupt(source: str, expected: object, found: object) -> CorruptManifest:
    return CorruptManifest(source=source, position=0, expected=expected, found=found)


def _manifest(parsed: dict[str, Any], source: str) -> SegmentManifest:
    metadata, indexes = parsed["remoteLogSegmentMetadata"], parsed["segmentIndexes"]
    segment = metadata["remoteLogSegmentId"]
    topic_id, place = segment["topicIdPartition"]["topicId"], segment["topicIdPartition"]["topicPartition"]
    sizes = parsed["chunkIndex"]
    return SegmentManifest(
        topic=str(place["topic"]),
        partition=int(place["partition"]),
        topic_id=str(topic_id),
        segment_id=str(segment["id"]),
        start_offset=int(metadata["startOffset"]),
        end_offset=int(metadata["endOffset"]),
        original_size=int(sizes["originalFileSize"]),
        chunks=_chunks(sizes, source),
        is_compressed=bool(parsed["compression"]),
        encryption=_encryption(parsed.get("encryption")),
        snapshot=_index(indexes["producerSnapshot"]),
        leader_epochs=_index(indexes["leaderEpoch"]),
        txn_index=_index(indexes.get("transaction")),
    )


def _index(written: dict[str, Any] | None) -> IndexRange:
    if written is None:
        return IndexRange()
    return IndexRange(position=int(written["position"]), size=int(written["size"]))


def _encryption(written: dict[str, Any] | None) -> Encryption | None:
    if written is None:
        return None
    key_id, separator, key = str(written["dataKey"]).rpartition(":")
    if not separator:
        raise ValueError("a data key without the id of the key that encrypted it")
    return Encryption(key_id=key_id, data_key=_bytes_of(key), aad=_bytes_of(written["aad"]))


def _bytes_of(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


def _chunks(index: dict[str, Any], source: str) -> tuple[Chunk, ...]:
    original, whole = int(index["originalChunkSize"]), int(index["originalFileSize"])
    if original <= 0 or whole < 0:
        raise ValueError(f"chunks of {original} bytes of a file of {whole} bytes")
    count = -(-whole // original)
    if count > MOST_CHUNKS:
        raise ValueError(f"{count} chunks")
    sizes = _stored_sizes(index, count, source)
    if len(sizes) != count or any(size < 0 for size in sizes):
        raise ValueError(f"{len(sizes)} stored chunks of {count}")
    chunks, position = [], 0
    for number, size in enumerate(sizes):
        left = min(original, whole - number * original)
        chunks.append(Chunk(number=number, position=position, size=size, original_size=left))
        position += size
    return tuple(chunks)


def _stored_sizes(index: dict[str, Any], count: int, source: str) -> list[int]:
    if index["type"] == "variable":
        packed = memoryview(_bytes_of(index["transformedChunks"]))
        bounds = OutputLimit(
            limit=_LIST_HEADER.size + _INT.size * (MOST_CHUNKS + 1), source=source, position=0
        )
        return read_chunk_sizes(decompress(packed, bounds))
    if index["type"] != "fixed":
        raise ValueError(f"a chunk index of type {index['type']}")
    return [*[int(index["transformedChunkSize"])] * (count - 1), int(index["finalTransformedChunkSize"])][
        :count
    ]


def read_chunk_sizes(data: bytes) -> list[int]:
    """A list of sizes: all but the last one as their difference to a base, in as few bytes as they need."""
    (count,) = _INT.unpack_from(data)
    if count == 0:
        return []
    if count == 1:
        return [_INT.unpack_from(data, _INT.size)[0]]
    _, base, width = _LIST_HEADER.unpack_from(data)
    end = _LIST_HEADER.size + (count - 1) * width
    if not 1 <= width <= _INT.size or len(data) != end + _INT.size:
        raise ValueError(f"{count} sizes of {width} bytes in {len(data)} bytes")
    places = range(_LIST_HEADER.size, end, width)
    sizes = [base + int.from_bytes(data[place : place + width], "big") for place in places]
    return [*sizes, _INT.unpack_from(data, end)[0]]
