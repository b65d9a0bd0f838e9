"""What `inspect` shows of each kind of file, and how it says no to everything else."""

import io
import os
from pathlib import Path

import pytest

from spark_jobs.inspect.printers import progress
from spark_jobs.kafka.formats.snapshot import write_snapshot
from spark_jobs.kafka.producers.producer_state import BatchMetadata, ProducerStateEntry
from tests.inspect.conftest import Inspect, objects
from tests.pipeline.materialise.truth import DATA
from tests.sample.partition_writer import PartitionWriter

SNAPSHOT = write_snapshot(
    [
        ProducerStateEntry(
            producer_id=7,
            producer_epoch=2,
            coordinator_epoch=1,
            last_timestamp=1_700_000_000_000,
            current_txn_first_offset=40,
            batches=(
                BatchMetadata(last_sequence=9, last_offset=41, offset_delta=1, timestamp=1_700_000_000_000),
            ),
        )
    ]
)


def write(directory: Path, name: str, data: bytes) -> Path:
    path = directory / name
    path.write_bytes(data)
    return path


def test_a_snapshot_shows_its_producers_and_open_transactions(inspect: Inspect, tmp_path: Path) -> None:
    path = write(tmp_path, "00000000000000000042.snapshot", SNAPSHOT)
    head, producer, remark = objects(inspect(path, "--json"))
    assert (head["kind"], head["end_offset"], head["producers"]) == ("snapshot", 42, 1)
    assert (producer["producer_id"], producer["last_sequence"], producer["last_offset"]) == (7, 9, 41)
    assert remark["text"] == "1 open transaction, the oldest from offset 40"


def test_a_snapshot_that_fails_its_checksum_is_an_error(inspect: Inspect, tmp_path: Path) -> None:
    result = inspect(write(tmp_path, "00000000000000000042.snapshot", SNAPSHOT + b"\0"))
    assert result.exit_code == 1
    assert "corrupt producer snapshot" in result.stderr


def test_a_transaction_index_shows_its_entries(inspect: Inspect, sample: Path) -> None:
    _, entry = objects(inspect(sample / "orders-0" / "00000000000000000000.txnindex", "--json"))
    assert (entry["producer_id"], entry["first_offset"], entry["last_offset"]) == (4001, 3, 5)


def test_a_torn_entry_of_a_transaction_index_is_remarked(inspect: Inspect, sample: Path) -> None:
    path = sample / "orders-0" / "00000000000000000000.txnindex"
    path.write_bytes(path.read_bytes() + b"\0" * 5)
    assert objects(inspect(path, "--json"))[-1]["text"] == "5 trailing bytes that a broker ignores"


def test_an_offset_index_shows_absolute_offsets_and_what_is_preallocated(
    inspect: Inspect, tmp_path: Path
) -> None:
    path = write(tmp_path, "00000000000000000100.index", bytes.fromhex("0000000500000200" + "00" * 16))
    _, entry, remark = objects(inspect(path, "--json"))
    assert (entry["offset"], entry["position"]) == (105, 512)
    assert remark["text"] == "2 preallocated entries not in use"


def test_a_time_index_shows_times(inspect: Inspect, tmp_path: Path) -> None:
    path = write(tmp_path, "00000000000000000100.timeindex", bytes.fromhex("0000018bcfe5680000000005"))
    assert "2023-11-14T22:13:20.000Z" in inspect(path).stdout


def test_checkpoints_and_metadata_show_their_entries(inspect: Inspect, tmp_path: Path) -> None:
    epochs = write(tmp_path, "leader-epoch-checkpoint", b"0\n1\n3 17\n")
    offsets = write(tmp_path, "log-start-offset-checkpoint", b"0\n1\norders 0 5\n")
    metadata = write(tmp_path, "partition.metadata", b"version: 0\ntopic_id: 25SNuNZhRx2La2_fVdm_UQ")
    found = objects(inspect(epochs, offsets, metadata, "--json"))
    assert [entry["kind"] for entry in found] == [
        "leader_epoch_checkpoint", "leader_epoch", "offset_checkpoint", "offset", "partition_metadata",
    ]  # fmt: skip
    assert (found[1]["epoch"], found[1]["start_offset"]) == (3, 17)
    assert (found[3]["topic"], found[3]["partition"], found[3]["offset"]) == ("orders", 0, 5)
    assert found[4]["topic_id"] == "25SNuNZhRx2La2_fVdm_UQ"


@pytest.mark.parametrize(
    "name", ["leader-epoch-checkpoint", "partition.metadata", "00000000000000000000.index"]
)
def test_a_damaged_small_file_is_an_error_that_says_where(
    inspect: Inspect, tmp_path: Path, name: str
) -> None:
    result = inspect(write(tmp_path, name, b"not at all"))
    assert result.exit_code == 1
    assert f"error: {name} at byte" in result.stderr


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("holiday.jpg", b"\xff\xd8\xff\xe0" + bytes(range(256))),
        ("empty", b""),
        ("00000000000000000000.log", b"<html>" * 100),
    ],
)
def test_what_is_not_kafkas_is_refused(inspect: Inspect, tmp_path: Path, name: str, data: bytes) -> None:
    result = inspect(write(tmp_path, name, data))
    assert result.exit_code == 1
    assert "not a Kafka file" in result.stderr
    assert result.stdout == ""


def test_a_directory_without_anything_of_kafkas_is_refused(inspect: Inspect, tmp_path: Path) -> None:
    result = inspect(tmp_path)
    assert result.exit_code == 1
    assert "nor a log directory" in result.stderr


def test_batches_under_any_name_are_shown(inspect: Inspect, sample: Path, tmp_path: Path) -> None:
    data = (sample / "payments-0" / "00000000000000000000.log").read_bytes()
    found = objects(inspect(write(tmp_path, "captured-object", data), "--json"))
    assert [batch["codec"] for batch in found if batch["kind"] == "batch"] == [
        "none", "gzip", "snappy", "lz4", "zstd",
    ]  # fmt: skip


def test_a_hostile_name_or_value_cannot_command_the_terminal(inspect: Inspect, tmp_path: Path) -> None:
    result = inspect(tmp_path / "\x1b]0;owned\x07")
    assert "\x1b" not in result.output
    assert "\\x1b]0;owned\\x07" in result.stderr


@pytest.mark.parametrize("topic", [b"\x1b]0;owned\x07", b"\x1b[31m", b"no-utf8-\xff"])
def test_a_hostile_topic_stays_text_above_its_records(inspect: Inspect, tmp_path: Path, topic: bytes) -> None:
    log = PartitionWriter()
    log.send([b"x"])
    log.write(tmp_path / os.fsdecode(topic + b"-0"))
    result = inspect(tmp_path, "--records")
    assert (result.exit_code, result.exception) == (0, None)
    assert "\x1b" not in result.output
    assert "x1b" in result.stdout or "no-utf8-\\xff-0" in result.stdout


def test_a_hostile_name_stays_text_beside_a_progress_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setattr("sys.stderr", shown := io.StringIO())
    with progress("\x1b]0;owned\x07[red]x-0", 10, wanted=True) as advance:
        advance(10)
    assert "\x1b]0;owned" not in shown.getvalue()
    assert "\\x1b]0;owned\\x07[red]x-0" in shown.getvalue()


def test_read_committed_of_a_lone_segment_is_refused_with_the_reason(inspect: Inspect, sample: Path) -> None:
    segment = sample / "orders-0" / "00000000000000000000.log"
    result = inspect(segment, "--records", "--isolation", "read_committed")
    assert result.exit_code == 1
    assert "needs the partition's directory" in result.stderr


META_PROPERTIES = b"""#
#Tue Nov 17 22:26:37 UTC 2026
cluster.id=MkU3OEVBNTcwNTJENDM2Qg
node.id=1
version=1
directory.id=6fS3ErZvRyq0xhdbHPzvVA
"""
QUORUM_STATE = b'{"leaderId":1,"leaderEpoch":3,"votedId":-1,"currentVoters":[{"voterId":1}],"data_version":0}'


def test_a_log_directory_s_properties_are_shown(inspect: Inspect, tmp_path: Path) -> None:
    [found] = objects(inspect(write(tmp_path, "meta.properties", META_PROPERTIES), "--json"))
    assert found["kind"] == "meta_properties"
    assert (found["cluster_id"], found["node_id"], found["version"]) == ("MkU3OEVBNTcwNTJENDM2Qg", "1", "1")


def test_a_quorum_state_is_shown(inspect: Inspect, tmp_path: Path) -> None:
    path = write(tmp_path, "quorum-state", QUORUM_STATE)
    [found] = objects(inspect(path, "--json"))
    assert (found["kind"], found["leaderId"], found["leaderEpoch"]) == ("quorum_state", 1, 3)
    assert found["currentVoters"] == '[{"voterId": 1}]'
    assert "leaderEpoch 3" in inspect(path).stdout


@pytest.mark.parametrize("recording", ["oracle_A", "scenarios"])
def test_a_mark_of_a_clean_shutdown_is_shown(inspect: Inspect, recording: str) -> None:
    """As a real broker has left it."""
    path = DATA / recording / "data" / ".kafka_cleanshutdown"
    result = inspect(path, "--json")
    [found] = objects(result)
    assert result.exit_code == 0
    assert found["kind"] == "clean_shutdown"
    assert found["brokerEpoch"] >= 0


@pytest.mark.parametrize("data", [b"{", b"[1]", b"\xff\xfe", b'"text"'])
@pytest.mark.parametrize("name", ["quorum-state", ".kafka_cleanshutdown"])
def test_what_is_no_json_object_is_said(inspect: Inspect, tmp_path: Path, name: str, data: bytes) -> None:
    assert "error: expected a JSON object" in inspect(write(tmp_path, name, data)).stdout


def test_an_empty_mark_of_a_clean_shutdown_is_one(inspect: Inspect, tmp_path: Path) -> None:
    [found] = objects(inspect(write(tmp_path, ".kafka_cleanshutdown", b""), "--json"))
    assert found["kind"] == "clean_shutdown"
