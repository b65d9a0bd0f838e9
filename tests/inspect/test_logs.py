"""What `inspect` shows of segments, partitions and log directories, and what it remarks upon."""

from dataclasses import replace
from pathlib import Path

import pytest

from spark_jobs.kafka.formats.batch_builder import build_batch, seal
from spark_jobs.kafka.formats.control_record import ControlType
from spark_jobs.kafka.formats.record_batch import HEADER_SIZE, read_header
from spark_jobs.kafka.formats.records import Record
from tests.inspect.conftest import Inspect, objects
from tests.sample.partition_writer import PartitionWriter


def remarks(inspect: Inspect, path: Path) -> list[str]:
    """What is said about `path`."""
    return [entry["text"] for entry in objects(inspect(path, "--json")) if entry["kind"] == "remark"]


def a_log(tmp_path: Path, log: PartitionWriter, tail: bytes = b"") -> Path:
    log.write(tmp_path / "orders-0", tail=tail)
    return tmp_path / "orders-0"


def test_a_log_directory_shows_a_row_per_partition_in_order(inspect: Inspect, sample: Path) -> None:
    rows = [entry for entry in objects(inspect(sample, "--json")) if entry["kind"] == "partition"]
    assert [(row["topic"], row["partition"]) for row in rows] == [
        ("__transaction_state", 0), ("orders", 0), ("orders", 1), ("payments", 0),
    ]  # fmt: skip
    assert [row["last_stable_offset"] for row in rows] == [2, 8, 2, 15]
    assert [row["high_watermark"] for row in rows] == [None, 8, 4, None]


def test_topic_ids_are_shown_and_two_of_one_topic_remarked_upon(inspect: Inspect, sample: Path) -> None:
    ids = {"orders-0": "25SNuNZhRx2La2_fVdm_UQ", "orders-1": "Q6qNlyVoRc-LPQhzkpBTGA", "payments-0": "short"}
    for name, topic_id in ids.items():
        (sample / name / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}")
    rows = [entry for entry in objects(inspect(sample, "--json")) if entry["kind"] == "partition"]
    assert [row["topic_id"] for row in rows] == [None, ids["orders-0"], ids["orders-1"], None]
    assert any("orders: its partitions have 2 topic ids" in text for text in remarks(inspect, sample))
    (partition,) = (
        entry for entry in objects(inspect(sample / "orders-0", "--json")) if entry["kind"] == "partition"
    )
    assert partition["topic_id"] == ids["orders-0"]


def test_a_segment_shows_a_line_per_batch(inspect: Inspect, sample: Path) -> None:
    found = objects(inspect(sample / "orders-0" / "00000000000000000000.log", "--json"))
    batches = [entry for entry in found if entry["kind"] == "batch"]
    assert [batch["control_type"] for batch in batches] == [
        None,
        "COMMIT",
        None,
        None,
        "ABORT",
        "COMMIT",
        "COMMIT",
    ]
    assert [batch["base_offset"] for batch in batches] == [0, 2, 3, 4, 5, 6, 7]
    assert all(batch["crc_ok"] for batch in batches)


def test_open_transactions_are_counted_with_what_they_hold_back(inspect: Inspect, sample: Path) -> None:
    (text,) = remarks(inspect, sample / "orders-1")
    assert (
        text == "1 open transaction: the oldest, of producer 4001 epoch 0, keeps the last stable offset at 2"
    )


def test_a_torn_tail_is_located(inspect: Inspect, sample: Path) -> None:
    (text,) = remarks(inspect, sample / "payments-0")
    assert "torn tail at byte 743: 100 trailing bytes that a recovery would cut off" in text


def test_a_zero_filled_tail_is_located(inspect: Inspect, tmp_path: Path) -> None:
    log = PartitionWriter()
    log.send([b"x"])
    (text,) = remarks(inspect, a_log(tmp_path, log, tail=bytes(4096)))
    assert f"zero-filled tail at byte {len(log.batches[0])}: 4,096 trailing bytes" in text


def test_a_wrong_checksum_is_located_and_the_batches_behind_it_are_shown(
    inspect: Inspect, tmp_path: Path
) -> None:
    log = PartitionWriter()
    for _ in range(3):
        log.send([b"abc"])
    log.batches[1] = log.batches[1][:-2] + b"!!"
    partition = a_log(tmp_path, log)
    (text,) = remarks(inspect, partition)
    size = len(log.batches[0])
    assert (
        f"checksum mismatch in 1 batch, at byte {size}: a recovery would keep the first {size} bytes" in text
    )
    assert [record["offset"] for record in objects(inspect(partition, "--records", "--json"))] == [0, 2]


def test_a_control_batch_that_compaction_emptied_counts_no_records(inspect: Inspect, tmp_path: Path) -> None:
    log = PartitionWriter()
    log.send([b"a", b"b"])
    emptied = build_batch(
        records=(), base_timestamp=-1, base_offset=2, producer_id=9, producer_epoch=0, is_transactional=True,
        is_control=True, last_offset_delta=0,
    )  # fmt: skip
    log.append(emptied, 1)
    found = objects(inspect(a_log(tmp_path, log), "--json"))
    (segment,) = (entry for entry in found if entry["kind"] == "segment")
    assert (segment["batches"], segment["records"], segment["markers"]) == (2, 2, 1)


def test_a_repeated_marker_is_noted(inspect: Inspect, sample: Path) -> None:
    (text,) = remarks(inspect, sample / "orders-0")
    assert text.startswith("1 duplicate marker, at offset 7")


def test_a_sequence_gap_is_named(inspect: Inspect, tmp_path: Path) -> None:
    log = PartitionWriter()
    log.send([b"a", b"b"], producer_id=9)
    log.next_sequence[9] = 5
    log.send([b"c"], producer_id=9)
    assert remarks(inspect, a_log(tmp_path, log)) == [
        "1 sequence gap: producer 9 epoch 0 at offset 2, sequence 5"
    ]


def test_sequences_that_went_with_compacted_offsets_are_no_gap(inspect: Inspect, tmp_path: Path) -> None:
    log = PartitionWriter()
    for value in (b"a", b"b", b"c"):
        log.send([value], producer_id=9)
    del log.batches[1]
    assert remarks(inspect, a_log(tmp_path, log)) == []


def test_offsets_that_go_back_are_an_error(inspect: Inspect, tmp_path: Path) -> None:
    log = PartitionWriter()
    log.send([b"a"])
    log.batches.append(log.batches[0])
    assert remarks(inspect, a_log(tmp_path, log)) == ["offsets do not increase at 1 batch, at offset 0"]


def test_an_abort_that_the_index_does_not_list_is_a_warning(inspect: Inspect, tmp_path: Path) -> None:
    log = PartitionWriter()
    log.send([b"a"], producer_id=9, transactional=True)
    log.end(9, ControlType.ABORT)
    partition = a_log(tmp_path, log)
    assert remarks(inspect, partition) == []
    (partition / "00000000000000000000.txnindex").unlink()
    (text,) = remarks(inspect, partition)
    assert text.startswith("1 aborted transaction not in the transaction index, the first of producer 9")


@pytest.mark.parametrize("way", [[], ["--json"]], ids=["text", "json"])
def test_records_that_could_not_be_read_are_named_and_the_exit_code_is_1(
    inspect: Inspect, tmp_path: Path, way: list[str]
) -> None:
    log = PartitionWriter()
    for value in (b"a", b"b", b"c"):
        log.send([value])
    partition = a_log(tmp_path, log)
    whole = inspect(partition, "--records", *way)
    segment = partition / "00000000000000000000.log"
    damaged = bytearray(segment.read_bytes())
    damaged[len(log.batches[0]) + HEADER_SIZE] ^= 0xFF
    segment.write_bytes(damaged)
    torn = inspect(partition, "--records", *way)
    assert (whole.exit_code, torn.exit_code) == (0, 1)
    assert "checksum mismatch" not in whole.output
    assert "checksum mismatch in 1 batch" in torn.output
    assert inspect(tmp_path, "--records", *way).exit_code == 1, "also within a log directory"
    assert inspect(partition, *way).exit_code == 0, "the batches themselves could all be shown"


def test_a_corrupt_snapshot_in_a_partition_is_remarked_and_the_partition_shown(
    inspect: Inspect, sample: Path
) -> None:
    (sample / "orders-0" / "00000000000000000008.snapshot").write_bytes(b"garbage")
    result = inspect(sample / "orders-0", "--json")
    assert result.exit_code == 0
    assert any("corrupt producer snapshot" in text for text in remarks(inspect, sample / "orders-0"))


def test_files_that_a_broker_would_delete_are_no_part_of_the_log(inspect: Inspect, sample: Path) -> None:
    segment = sample / "orders-0" / "00000000000000000000.log"
    segment.with_name("00000000000000000000.log.deleted").write_bytes(segment.read_bytes())
    found = objects(inspect(sample / "orders-0", "--json"))
    assert [entry["segment"] for entry in found if entry["kind"] == "segment"] == [segment.name]
    assert any("1 file being deleted or added (.deleted)" in entry.get("text", "") for entry in found)


def test_records_below_the_log_start_are_no_longer_shown(inspect: Inspect, sample: Path) -> None:
    (sample / "log-start-offset-checkpoint").write_bytes(b"0\n1\npayments 0 4\n")
    shown = objects(inspect(sample / "payments-0", "--records", "--json"))
    assert [record["offset"] for record in shown] == list(range(4, 15))


def test_the_coordinators_log_shows_the_state_of_each_id(inspect: Inspect, sample: Path) -> None:
    found = objects(inspect(sample / "__transaction_state-0", "--json"))
    ids = {entry["transactional_id"]: entry for entry in found if entry["kind"] == "transactional_id"}
    assert ids["shop"]["state"] == "CompleteCommit"
    assert (ids["zombie"]["state"], ids["zombie"]["partitions"]) == ("Ongoing", "orders-1")
    assert remarks(inspect, sample / "__transaction_state-0") == ["1 transaction in Ongoing: open"]


def test_the_coordinators_records_come_with_their_meaning(inspect: Inspect, sample: Path) -> None:
    shop, zombie = objects(inspect(sample / "__transaction_state-0", "--records", "--json"))
    assert shop["decoded"]["key"]["transactional_id"] == "shop"
    assert zombie["decoded"]["value"]["transaction_status"] == "Ongoing"
    assert "transaction_status" in inspect(sample / "__transaction_state-0", "--records").stdout


def test_offsets_of_groups_are_shown_with_those_that_wait(inspect: Inspect) -> None:
    data = Path(__file__).parents[1] / "recordings/data/workload_clean/data"
    found = objects(inspect(data / "__consumer_offsets-0", "--json"))
    offsets = {
        (entry["group"], entry["topic"], entry["partition"]): entry["offset"]
        for entry in found
        if entry["kind"] == "consumer_offset"
    }
    assert offsets["ctp-java", "j-idem", 0] == 250
    assert offsets["plain-group", "basic", 3] == 92


def test_damaged_records_in_a_valid_batch_are_reported_and_the_rest_shown(
    inspect: Inspect, tmp_path: Path
) -> None:
    log = PartitionWriter()
    log.send([b"good"])
    lying = build_batch(records=[Record(value=b"bad")], base_timestamp=0, base_offset=1, last_offset_delta=0)
    log.append(_with_record_count(lying, 2), 1)
    log.send([b"good again"])
    result = inspect(a_log(tmp_path, log), "--records", "--json")
    assert [record["offset"] for record in objects(result)] == [0, 1, 2]
    assert "records not shown" in result.stderr
    assert "expected 2 records, found 1" in result.stderr


def _with_record_count(batch: bytes, count: int) -> bytes:
    return seal(replace(read_header(batch), record_count=count), batch[HEADER_SIZE:])
