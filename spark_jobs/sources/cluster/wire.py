"""Requests in the versions that clusters of Kafka 1.0 to 4.x speak, by aiokafka's types.

aiokafka has Fetch up to v11 and ListOffsets. Metadata with leader epochs (v7) and topic ids (v10),
OffsetForLeaderEpoch, and ListOffsets that knows tiered storage (v8) are defined here.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any

from aiokafka.protocol.abstract import AbstractType
from aiokafka.protocol.admin import DescribeConfigsRequest
from aiokafka.protocol.api import RequestStruct, Response
from aiokafka.protocol.fetch import FetchRequest
from aiokafka.protocol.offset import OffsetRequest
from aiokafka.protocol.types import (
    Array,
    Boolean,
    CompactArray,
    CompactString,
    Int8,
    Int16,
    Int32,
    Int64,
    Schema,
    String,
    TaggedFields,
)

from spark_jobs.sources.cluster.cut import VersionMissing

Versions = Mapping[int, tuple[int, int]]
LIST_OFFSETS, METADATA, OFFSET_FOR_LEADER_EPOCH = 2, 3, 23
CONSUMER, READ_UNCOMMITTED, READ_COMMITTED = -1, 0, 1
LATEST, EARLIEST, EARLIEST_LOCAL = -1, -2, -4
TOPIC = 2
NO_UUID = bytes(16)


class Uuid(AbstractType[bytes]):
    """Sixteen bytes."""

    @classmethod
    def encode(cls, value: bytes) -> bytes:
        return value

    @classmethod
    def decode(cls, data: BytesIO) -> bytes:
        return data.read(16)


_TEXT, _COMPACT = String("utf-8"), CompactString("utf-8")
_REPLICAS = (("replicas", Array(Int32)), ("isr", Array(Int32)), ("offline", Array(Int32)))
_COMPACT_REPLICAS = (
    ("replicas", CompactArray(Int32)), ("isr", CompactArray(Int32)), ("offline", CompactArray(Int32))
)  # fmt: skip
_BROKER = (("node_id", Int32), ("host", _TEXT), ("port", Int32), ("rack", _TEXT))
_PARTITION = (("error_code", Int16), ("partition", Int32), ("leader", Int32))


def _metadata_response(version: int, *fields: tuple[str, Any]) -> type[Response]:
    names = {"API_KEY": METADATA, "API_VERSION": version, "SCHEMA": Schema(*fields)}
    return type(f"MetadataResponse_v{version}", (Response,), names)


def _topics(*partition: tuple[str, Any]) -> Array:
    return Array(
        ("error_code", Int16), ("topic", _TEXT), ("is_internal", Boolean), ("partitions", Array(*partition))
    )


class MetadataRequest_v5(RequestStruct):  # noqa: N801 - as the protocol's classes are called
    """Topics by name, all of them if null."""

    API_KEY = METADATA
    API_VERSION = 5
    RESPONSE_TYPE = _metadata_response(
        5,
        ("throttle_time_ms", Int32),
        ("brokers", Array(*_BROKER)),
        ("cluster_id", _TEXT),
        ("controller_id", Int32),
        ("topics", _topics(*_PARTITION, *_REPLICAS)),
    )
    SCHEMA = Schema(("topics", Array(_TEXT)), ("allow_auto_topic_creation", Boolean))


class MetadataRequest_v7(RequestStruct):  # noqa: N801
    """With leader epochs."""

    API_KEY = METADATA
    API_VERSION = 7
    RESPONSE_TYPE = _metadata_response(
        7,
        ("throttle_time_ms", Int32),
        ("brokers", Array(*_BROKER)),
        ("cluster_id", _TEXT),
        ("controller_id", Int32),
        ("topics", _topics(*_PARTITION, ("leader_epoch", Int32), *_REPLICAS)),
    )
    SCHEMA = MetadataRequest_v5.SCHEMA


class MetadataRequest_v10(RequestStruct):  # noqa: N801
    """With topic ids."""

    API_KEY = METADATA
    API_VERSION = 10
    FLEXIBLE_VERSION = True
    RESPONSE_TYPE = _metadata_response(
        10,
        ("throttle_time_ms", Int32),
        (
            "brokers",
            CompactArray(
                ("node_id", Int32),
                ("host", _COMPACT),
                ("port", Int32),
                ("rack", _COMPACT),
                ("tags", TaggedFields),
            ),
        ),
        ("cluster_id", _COMPACT),
        ("controller_id", Int32),
        (
            "topics",
            CompactArray(
                ("error_code", Int16),
                ("topic", _COMPACT),
                ("topic_id", Uuid),
                ("is_internal", Boolean),
                (
                    "partitions",
                    CompactArray(
                        *_PARTITION, ("leader_epoch", Int32), *_COMPACT_REPLICAS, ("tags", TaggedFields)
                    ),
                ),
                ("authorized_operations", Int32),
                ("tags", TaggedFields),
            ),
        ),
        ("cluster_authorized_operations", Int32),
        ("tags", TaggedFields),
    )
    SCHEMA = Schema(
        ("topics", CompactArray(("topic_id", Uuid), ("topic", _COMPACT), ("tags", TaggedFields))),
        ("allow_auto_topic_creation", Boolean),
        ("include_cluster_authorized_operations", Boolean),
        ("include_topic_authorized_operations", Boolean),
        ("tags", TaggedFields),
    )


class OffsetForLeaderEpochResponse_v2(Response):  # noqa: N801
    """Where each asked epoch ends in the leader's log."""

    API_KEY = OFFSET_FOR_LEADER_EPOCH
    API_VERSION = 2
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "topics",
            Array(
                ("topic", _TEXT),
                (
                    "partitions",
                    Array(
                        ("error_code", Int16),
                        ("partition", Int32),
                        ("leader_epoch", Int32),
                        ("end_offset", Int64),
                    ),
                ),
            ),
        ),
    )


_ASKED_EPOCHS = Array(
    ("topic", _TEXT),
    (
        "partitions",
        Array(("partition", Int32), ("current_leader_epoch", Int32), ("leader_epoch", Int32)),
    ),
)


class OffsetForLeaderEpochRequest_v2(RequestStruct):  # noqa: N801
    """Before Kafka 2.3."""

    API_KEY = OFFSET_FOR_LEADER_EPOCH
    API_VERSION = 2
    RESPONSE_TYPE = OffsetForLeaderEpochResponse_v2
    SCHEMA = Schema(("topics", _ASKED_EPOCHS))


class OffsetForLeaderEpochRequest_v3(RequestStruct):  # noqa: N801
    """With the replica id, -1 for consumers."""

    API_KEY = OFFSET_FOR_LEADER_EPOCH
    API_VERSION = 3
    RESPONSE_TYPE = OffsetForLeaderEpochResponse_v2
    SCHEMA = Schema(("replica_id", Int32), ("topics", _ASKED_EPOCHS))


class ListOffsetsResponse_v8(Response):  # noqa: N801
    """Offsets with the leader epochs that they are in."""

    API_KEY = LIST_OFFSETS
    API_VERSION = 8
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "topics",
            CompactArray(
                ("topic", _COMPACT),
                (
                    "partitions",
                    CompactArray(
                        ("partition", Int32),
                        ("error_code", Int16),
                        ("timestamp", Int64),
                        ("offset", Int64),
                        ("leader_epoch", Int32),
                        ("tags", TaggedFields),
                    ),
                ),
                ("tags", TaggedFields),
            ),
        ),
        ("tags", TaggedFields),
    )


class ListOffsetsRequest_v8(RequestStruct):  # noqa: N801
    """From this version on, `EARLIEST_LOCAL` is known."""

    API_KEY = LIST_OFFSETS
    API_VERSION = 8
    FLEXIBLE_VERSION = True
    RESPONSE_TYPE = ListOffsetsResponse_v8
    SCHEMA = Schema(
        ("replica_id", Int32),
        ("isolation_level", Int8),
        (
            "topics",
            CompactArray(
                ("topic", _COMPACT),
                (
                    "partitions",
                    CompactArray(
                        ("partition", Int32),
                        ("current_leader_epoch", Int32),
                        ("timestamp", Int64),
                        ("tags", TaggedFields),
                    ),
                ),
                ("tags", TaggedFields),
            ),
        ),
        ("tags", TaggedFields),
    )


@dataclass(frozen=True, slots=True)
class Ask:
    """A request in several versions, newest first: the connection sends the newest that its broker knows."""

    choices: Sequence[tuple[type[RequestStruct], Callable[[], Sequence[Any]]]]

    def prepare(self, versions: Versions) -> RequestStruct:
        """The request for a broker with these versions."""
        api_key = self.choices[0][0].API_KEY
        lowest, highest = versions.get(api_key, (0, -1))
        for struct, values in self.choices:
            if lowest <= struct.API_VERSION <= highest:
                return struct(*values())
        known = [struct.API_VERSION for struct, _ in self.choices]
        raise VersionMissing(
            f"the broker speaks versions {lowest} to {highest} of API {api_key}, needed is one of {known}"
        )


def fields_of(schema: Schema, values: Sequence[Any]) -> dict[str, Any]:
    """The values of a reply by their names; a null array stays null."""
    return {
        name: _value_of(kind, value)
        for name, kind, value in zip(schema.names, schema.fields, values, strict=True)
    }


def _value_of(kind: Any, value: Any) -> Any:
    if value is None or not isinstance(kind, Array) or not isinstance(kind.array_of, Schema):
        return value
    return [fields_of(kind.array_of, each) for each in value]


def metadata(topics: Sequence[str] | None) -> Ask:
    """Brokers, and these topics or all; topics are never created by it."""
    named = None if topics is None else list(topics)
    by_id: list[tuple[bytes, str, dict[int, bytes]]] | None = (
        None if topics is None else [(NO_UUID, topic, {}) for topic in topics]
    )
    return Ask(
        (
            (MetadataRequest_v10, lambda: (by_id, False, False, False, {})),
            (MetadataRequest_v7, lambda: (named, False)),
            (MetadataRequest_v5, lambda: (named, False)),
        )
    )


def end_of_epochs(asked: Mapping[str, Sequence[tuple[int, int]]]) -> Ask:
    """Where epochs end: partitions with their epochs, by topic."""
    topics = [(topic, [(partition, -1, epoch) for partition, epoch in each]) for topic, each in asked.items()]
    return Ask(
        (
            (OffsetForLeaderEpochRequest_v3, lambda: (CONSUMER, topics)),
            (OffsetForLeaderEpochRequest_v2, lambda: (topics,)),
        )
    )


def list_offsets(at: int, asked: Mapping[str, Sequence[int]], *, isolation: int) -> OffsetRequest:
    """The log start, the high watermark or the last stable offset of partitions by topic."""
    topics = [(topic, [(partition, at) for partition in each]) for topic, each in asked.items()]
    return OffsetRequest(CONSUMER, isolation, topics)


def list_starts(at: int, asked: Mapping[str, Sequence[int]]) -> Ask:
    """The start of a log, or of what the broker itself has of it, with the leader epoch there."""
    topics: list[tuple[str, list[tuple[int, int, int, dict[int, bytes]]], dict[int, bytes]]] = [
        (topic, [(number, -1, at, {}) for number in each], {}) for topic, each in asked.items()
    ]
    return Ask(((ListOffsetsRequest_v8, lambda: (CONSUMER, READ_UNCOMMITTED, topics, {})),))


def fetch(topic: str, partition: int, offset: int, *, max_bytes: int, wait_ms: int) -> FetchRequest:
    """Batches of one partition from `offset` on, also of open and aborted transactions."""
    return FetchRequest(wait_ms, 1, max_bytes, READ_UNCOMMITTED, [(topic, [(partition, offset, max_bytes)])])


def cleanup_policies(topics: Sequence[str]) -> DescribeConfigsRequest:
    """`cleanup.policy` of topics."""
    return DescribeConfigsRequest([(TOPIC, topic, ["cleanup.policy"]) for topic in topics])
