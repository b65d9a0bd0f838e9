"""Manifests of Aiven's plugin; the golden cases have the values of the plugin's own tests."""

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.kafka.errors import CorruptManifest
from spark_jobs.kafka.formats.aiven_manifest import IndexRange, read_chunk_sizes, read_segment_manifest
from tests.sources.tiers import Aiven, Upload, pack_sizes

GOLDEN: dict[str, Any] = {
    "version": "1",
    "chunkIndex": {
        "type": "fixed",
        "originalChunkSize": 100,
        "originalFileSize": 1000,
        "transformedChunkSize": 110,
        "finalTransformedChunkSize": 110,
    },
    "segmentIndexes": {
        "offset": {"position": 0, "size": 1},
        "timestamp": {"position": 1, "size": 1},
        "producerSnapshot": {"position": 2, "size": 1},
        "leaderEpoch": {"position": 3, "size": 1},
        "transaction": {"position": 4, "size": 1},
    },
    "compression": False,
    "remoteLogSegmentMetadata": {
        "remoteLogSegmentId": {
            "topicIdPartition": {
                "topicId": "lZ6vvmajTWKDBUTV6SQAtQ",
                "topicPartition": {"topic": "topic1", "partition": 42},
            },
            "id": "adh9f8BMS4anaUnD8KWfWg",
        },
        "startOffset": 0,
        "endOffset": 1000,
        "maxTimestampMs": 1000000000,
        "brokerId": 2,
        "eventTimestampMs": 2000000000,
        "segmentLeaderEpochs": {"0": 100, "1": 200, "2": 300},
    },
}


def changed(**changes: Any) -> bytes:
    return json.dumps(GOLDEN | changes).encode()


def test_the_golden_manifest() -> None:
    found = read_segment_manifest(changed())
    assert (found.topic, found.partition, found.topic_id) == ("topic1", 42, "lZ6vvmajTWKDBUTV6SQAtQ")
    assert (found.segment_id, found.start_offset, found.end_offset) == ("adh9f8BMS4anaUnD8KWfWg", 0, 1000)
    assert (found.original_size, len(found.chunks)) == (1000, 10)
    assert (found.chunks[9].position, found.chunks[9].size, found.chunks[9].original_size) == (990, 110, 100)
    assert (found.is_compressed, found.encryption) == (False, None)
    assert found.snapshot == IndexRange(position=2, size=1)
    assert found.txn_index == IndexRange(position=4, size=1)


def test_the_golden_manifest_with_encryption() -> None:
    key = base64.b64encode(b"encrypted").decode()
    found = read_segment_manifest(changed(encryption={"dataKey": f"a:b:{key}", "aad": "CgsMDQ=="}))
    assert found.encryption is not None
    assert (found.encryption.key_id, found.encryption.data_key) == ("a:b", b"encrypted")
    assert found.encryption.aad == bytes([10, 11, 12, 13])
    assert "encrypted" not in repr(found.encryption)


def test_a_segment_may_have_no_transaction_index() -> None:
    indexes = GOLDEN["segmentIndexes"] | {"transaction": None}
    assert read_segment_manifest(changed(segmentIndexes=indexes)).txn_index == IndexRange()


def test_the_last_chunk_is_smaller() -> None:
    index = GOLDEN["chunkIndex"] | {"originalFileSize": 250, "finalTransformedChunkSize": 80}
    chunks = read_segment_manifest(changed(chunkIndex=index)).chunks
    assert [(each.position, each.size, each.original_size) for each in chunks] == [
        (0, 110, 100),
        (110, 110, 100),
        (220, 80, 50),
    ]


def test_chunk_sizes_that_the_plugin_wrote() -> None:
    """Seen at a broker with the plugin 1.0.0: four sizes in a zstd frame that is not compressed."""
    index = {
        "type": "variable",
        "originalChunkSize": 1024,
        "originalFileSize": 3985,
        "transformedChunks": "KLUv/SAQgQAAAAAABAAAA8IBHAAqAAADkg==",
    }
    metadata = GOLDEN["remoteLogSegmentMetadata"] | {"txnIdxEmpty": True}
    found = read_segment_manifest(changed(chunkIndex=index, remoteLogSegmentMetadata=metadata))
    assert [each.size for each in found.chunks] == [990, 962, 1004, 914]
    assert [each.original_size for each in found.chunks] == [1024, 1024, 1024, 913]


@pytest.mark.parametrize(
    "sizes",
    [
        [],
        [213],
        [2**31 - 1],
        [0, 1000, 2, 44002, 369],
        [2**31 - 1, 2**31 - 2, 2**31 - 3, 10],
        [1, 2, 3, 2**31 - 1],
        [1, 0xFF + 10, 0xFF + 20, 0xFF + 30, 2**31 - 1],
        [1, 0xFFFF + 10, 0xFFFF + 20, 0xFFFF + 30, 2**31 - 1],
        [1, 0xFFFFFF + 10, 0xFFFFFF + 20, 0xFFFFFF + 30, 2**31 - 1],
    ],
)
def test_lists_of_sizes_of_the_plugins_tests(sizes: list[int]) -> None:
    assert read_chunk_sizes(pack_sizes(sizes)) == sizes


@pytest.mark.parametrize(
    ("sizes", "packed"),
    [
        ([], "00000000"),
        ([213], "00000001000000d5"),
        ([0, 1000, 2, 44002, 369], "00000005 00000000 02 0000 03e8 0002 abe2 00000171"),
        ([1000000, 1000010, 7], "00000003 000f4240 01 00 0a 00000007"),
    ],
)
def test_lists_of_sizes_as_bytes(sizes: list[int], packed: str) -> None:
    assert read_chunk_sizes(bytes.fromhex(packed)) == sizes


@given(st.lists(st.integers(0, 2**31 - 1), max_size=40))
def test_any_list_of_sizes_is_read_back(sizes: list[int]) -> None:
    assert read_chunk_sizes(pack_sizes(sizes)) == sizes


@given(
    sizes=st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=20),
    cut=st.integers(1, 4),
)
def test_a_shortened_list_is_refused(sizes: list[int], cut: int) -> None:
    index = {"type": "variable", "originalChunkSize": 1, "originalFileSize": len(sizes)}
    packed = bytes(__import__("cramjam").zstd.compress(pack_sizes(sizes)[:-cut]))
    index["transformedChunks"] = base64.b64encode(packed).decode()
    with pytest.raises(CorruptManifest):
        read_segment_manifest(changed(chunkIndex=index))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{}",
        changed(version="2"),
        changed(chunkIndex={}),
        changed(chunkIndex=GOLDEN["chunkIndex"] | {"type": "other"}),
        changed(chunkIndex=GOLDEN["chunkIndex"] | {"originalChunkSize": 0}),
        changed(chunkIndex=GOLDEN["chunkIndex"] | {"transformedChunkSize": -1}),
        changed(chunkIndex=GOLDEN["chunkIndex"] | {"originalChunkSize": 1, "originalFileSize": 2**40}),
        changed(encryption={"dataKey": "no separator", "aad": ""}),
        changed(encryption={"dataKey": "a:not base64!", "aad": ""}),
        changed(remoteLogSegmentMetadata=None),
    ],
)
def test_what_is_no_manifest_is_refused(data: bytes) -> None:
    with pytest.raises(CorruptManifest, match="tier/x"):
        read_segment_manifest(data, source="tier/x")


def test_the_writer_for_tests_writes_what_is_read() -> None:
    upload = Upload(
        topic="t", partition=0, topic_id="i" * 22, start=5, end=9, log=bytes(2500), snapshot=b"", epochs=b""
    )
    written = Aiven(is_compressed=True).manifest(
        upload, [10, 20, 30], json.loads(json.dumps(GOLDEN["segmentIndexes"])), 0
    )
    found = read_segment_manifest(json.dumps(written).encode())
    assert [each.size for each in found.chunks] == [10, 20, 30]
    assert (found.start_offset, found.end_offset) == (5, 8)
