import pytest

from spark_jobs.kafka.errors import CorruptCheckpoint
from spark_jobs.kafka.formats.checkpoints import (
    PartitionMetadata,
    read_partition_metadata,
    write_partition_metadata,
)

TEXT = b"version: 0\ntopic_id: Q6qNlyVoRc-LPQhzkpBTGA"
METADATA = PartitionMetadata(version=0, topic_id="Q6qNlyVoRc-LPQhzkpBTGA")


def test_a_file_is_two_lines_without_a_newline_at_the_end() -> None:
    assert write_partition_metadata(METADATA) == TEXT
    assert read_partition_metadata(TEXT) == METADATA


def test_a_newline_at_the_end_and_later_versions_are_read() -> None:
    assert read_partition_metadata(TEXT + b"\n") == METADATA
    later = read_partition_metadata(TEXT.replace(b"0", b"7", 1) + b"\nnew: field\n")
    assert later == PartitionMetadata(version=7, topic_id=METADATA.topic_id)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="an empty file"),
        pytest.param(TEXT[:11], id="no topic id"),
        pytest.param(TEXT[:-1], id="a short topic id"),
        pytest.param(TEXT + b"A", id="a long topic id"),
        pytest.param(TEXT.replace(b"Q6", b"$6"), id="a topic id outside the alphabet"),
        pytest.param(b"version: 0\ntopic_id: " + b"A" * 22, id="the zero UUID"),
        pytest.param(TEXT.replace(b"0", b"-1", 1), id="a negative version"),
        pytest.param(TEXT.replace(b"version: ", b"version:"), id="no space after the colon"),
        pytest.param(b"\xff" * 40, id="no text"),
    ],
)
def test_a_malformed_file_is_corrupt(data: bytes) -> None:
    with pytest.raises(CorruptCheckpoint) as raised:
        read_partition_metadata(data, source="partition.metadata")
    assert raised.value.source == "partition.metadata"
