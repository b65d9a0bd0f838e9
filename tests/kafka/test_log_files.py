import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.kafka.formats.log_files import (
    DirSuffix,
    FileSuffix,
    LogFile,
    LogFileKind,
    PartitionDir,
    parse_file_name,
    parse_partition_dir,
    segment_file_name,
)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("orders-0", PartitionDir(topic="orders", partition=0)),
        ("orders-eu-west-12", PartitionDir(topic="orders-eu-west", partition=12)),
        ("__consumer_offsets-49", PartitionDir(topic="__consumer_offsets", partition=49)),
        ("a.b-1", PartitionDir(topic="a.b", partition=1)),
        ("a-1.b-2", PartitionDir(topic="a-1.b", partition=2)),
        ("my-delete-3", PartitionDir(topic="my-delete", partition=3)),
        ("orders-0.a3f9-delete", PartitionDir(topic="orders", partition=0, suffix=DirSuffix.DELETE)),
        ("a.b-7.a3f9-future", PartitionDir(topic="a.b", partition=7, suffix=DirSuffix.FUTURE)),
        ("orders-0.a3f9-stray", PartitionDir(topic="orders", partition=0, suffix=DirSuffix.STRAY)),
    ],
)
def test_a_partition_s_directory_is_split_at_the_last_dash(name: str, expected: PartitionDir) -> None:
    assert parse_partition_dir(name) == expected


@pytest.mark.parametrize(
    "name",
    ["", "orders", "-0", "orders-", "orders-x", "orders-0.a3f9-gone", "orders-99999999999", "orders-\uff11"],
)
def test_other_directories_are_no_partition_s(name: str) -> None:
    assert parse_partition_dir(name) is None


@given(st.integers(0, 2**63 - 1), st.sampled_from(LogFileKind))
def test_a_file_name_is_parsed_as_it_was_made(offset: int, kind: LogFileKind) -> None:
    assert parse_file_name(segment_file_name(offset, kind)) == LogFile(offset=offset, kind=kind)


def test_offsets_are_written_with_twenty_digits() -> None:
    assert segment_file_name(42, LogFileKind.SNAPSHOT) == "00000000000000000042.snapshot"


@pytest.mark.parametrize("suffix", FileSuffix)
def test_files_on_their_way_in_or_out_inherit_a_suffix(suffix: FileSuffix) -> None:
    parsed = parse_file_name(f"00000000000000000042.timeindex.{suffix}")
    assert parsed == LogFile(offset=42, kind=LogFileKind.TIME_INDEX, suffix=suffix)


@pytest.mark.parametrize(
    "name",
    [
        "leader-epoch-checkpoint",
        "partition.metadata",
        "00000000000000000000-0000000003.checkpoint",
        "99999999999999999999.log",
        ".log",
        "x.log",
        "00000000000000000000.log.tmp",
        "00000000000000000000",
        "-1.log",
    ],
)
def test_other_files_belong_to_no_segment(name: str) -> None:
    assert parse_file_name(name) is None
