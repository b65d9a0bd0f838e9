"""Every file of a real broker is read, and written again it is the same file."""

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from spark_jobs.kafka.formats.batch_builder import seal
from spark_jobs.kafka.formats.checkpoints import (
    read_leader_epochs,
    read_offsets,
    read_partition_metadata,
    write_leader_epochs,
    write_offsets,
    write_partition_metadata,
)
from spark_jobs.kafka.formats.indexes import (
    read_offset_index,
    read_time_index,
    read_txn_index,
    write_txn_index,
)
from spark_jobs.kafka.formats.log_files import (
    LogFileKind,
    parse_file_name,
    parse_partition_dir,
    segment_file_name,
)
from spark_jobs.kafka.formats.record_batch import Codec, RecordBatchHeader
from spark_jobs.kafka.formats.records import read_records, read_stored_records, write_records
from spark_jobs.kafka.formats.snapshot import read_snapshot, write_snapshot
from spark_jobs.kafka.log.segment import ScannedBatch, scan_result

DATA = Path(__file__).parents[1] / "recordings" / "data"
EACH_RECORDING = pytest.mark.parametrize(
    "recording", ["scenarios", "oracle_A", "oracle_D", "oracle_E", "workload_clean"]
)


def files(recording: str, pattern: str) -> list[Path]:
    """The recording's files of that name; a recording without any would prove nothing."""
    found = sorted((DATA / recording / "data").glob(pattern))
    assert found, f"{recording} has no {pattern}"
    return found


def base_offset(path: Path) -> int:
    parsed = parse_file_name(path.name)
    assert parsed is not None
    return parsed.offset


def batches_of(path: Path) -> Iterable[tuple[ScannedBatch, bytes]]:
    data = path.read_bytes()
    found = scan_result(data, source=str(path))
    assert found.problem is None
    assert found.valid_bytes == len(data)
    return [(batch, data[batch.position : batch.end]) for batch in found.batches]


@EACH_RECORDING
def test_segments_are_whole_and_every_record_is_read(recording: str) -> None:
    for path in files(recording, f"*/*.{LogFileKind.LOG}"):
        for scanned, batch in batches_of(path):
            assert isinstance(scanned.header, RecordBatchHeader)
            assert len(tuple(read_records(batch))) == scanned.header.record_count


@EACH_RECORDING
def test_uncompressed_batches_are_rewritten_byte_for_byte(recording: str) -> None:
    for path in files(recording, f"*/*.{LogFileKind.LOG}"):
        for scanned, batch in batches_of(path):
            header = scanned.header
            if isinstance(header, RecordBatchHeader) and header.codec_id == Codec.NONE:
                assert seal(header, write_records(read_stored_records(batch))) == batch


def test_every_codec_was_recorded() -> None:
    paths = files("workload_clean", f"*/*.{LogFileKind.LOG}")
    assert {scanned.header.codec_id for path in paths for scanned, _ in batches_of(path)} == set(Codec)


@EACH_RECORDING
def test_snapshots_are_rewritten_byte_for_byte(recording: str) -> None:
    for path in files(recording, f"*/*.{LogFileKind.SNAPSHOT}"):
        assert write_snapshot(read_snapshot(path.read_bytes(), source=str(path))) == path.read_bytes()


@pytest.mark.parametrize("recording", ["scenarios", "oracle_D", "oracle_E", "workload_clean"])
def test_transaction_indexes_are_rewritten_byte_for_byte(recording: str) -> None:
    for path in files(recording, f"*/*.{LogFileKind.TXN_INDEX}"):
        entries = read_txn_index(path.read_bytes(), base_offset=base_offset(path), source=str(path))
        assert write_txn_index(entries) == path.read_bytes()


def test_a_broker_s_indexes_point_into_its_segment() -> None:
    """The index files themselves are not kept with the recordings; these are the bytes of one segment's."""
    offset_index = read_offset_index(bytes.fromhex("0000003a0000101f"), base_offset=112)
    time_index = read_time_index(
        bytes.fromhex("000001a1e1bd28fa0000003a000001a1e1bd2a870000006d"), base_offset=112
    )
    (segment,) = files("oracle_A", f"lat-0/{segment_file_name(112, LogFileKind.LOG)}")
    headers = {scanned.position: scanned.header for scanned, _ in batches_of(segment)}
    assert [headers[entry.position].last_offset for entry in offset_index] == [170]
    timestamps = {header.last_offset: header.max_timestamp for header in headers.values()}
    assert [timestamps[entry.offset] for entry in time_index] == [entry.timestamp for entry in time_index]


@EACH_RECORDING
def test_text_files_are_rewritten_byte_for_byte(recording: str) -> None:
    texts: dict[str, Callable[[bytes], bytes]] = {
        "*/leader-epoch-checkpoint": lambda data: write_leader_epochs(read_leader_epochs(data)),
        "*/partition.metadata": lambda data: write_partition_metadata(read_partition_metadata(data)),
        "*-offset-checkpoint": lambda data: write_offsets(read_offsets(data)) if data else b"",
    }
    for pattern, rewrite in texts.items():
        for path in files(recording, pattern):
            assert rewrite(path.read_bytes()) == path.read_bytes()


@EACH_RECORDING
def test_every_directory_is_a_partition_s(recording: str) -> None:
    directories = [path for path in files(recording, "*") if path.is_dir()]
    assert all(parse_partition_dir(path.name) for path in directories)
