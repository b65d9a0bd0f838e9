"""`onceover.scan_log` and `onceover.admit`: what `inspect` and the rules know, as tables."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import onceover
from spark_jobs.inspect.stored_partition import read_partition
from spark_jobs.kafka.formats.batch_builder import build_batch
from spark_jobs.kafka.formats.control_record import ControlType, write_marker
from spark_jobs.kafka.formats.records import Record
from spark_jobs.kafka.formats.snapshot import read_snapshot
from spark_jobs.reading import scan_log
from spark_jobs.reading.contracts import HEADER_TABLES
from spark_jobs.reading.stored_log import find_partitions
from tests.reading.conftest import RECORDINGS


def rows_of(table: pa.Table, *names: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in names) for row in table.select(list(names)).to_pylist()]


def test_every_table_follows_its_contract(sample: Path) -> None:
    found = onceover.scan_log(sample)

    for name, contract in HEADER_TABLES.items():
        assert getattr(found, name).schema.equals(contract.schema), name
        assert getattr(found, name).num_rows > 0, name


def test_transactions_have_the_outcome_of_their_marker(sample: Path) -> None:
    found = onceover.scan_log(sample, topics=["orders"]).transactions

    assert rows_of(
        found, "partition", "producer_id", "outcome", "first_offset", "marker_offset", "records"
    ) == [
        (0, 4000, "committed", 0, 2, 2),
        (0, 4001, "aborted", 3, 5, 1),
        (0, 4000, "committed", 4, 6, 1),
        (1, 4000, "committed", 0, 1, 1),
        (1, 4001, "open", 2, None, 1),
    ]


def test_remarks_are_those_of_inspect(sample: Path) -> None:
    found = rows_of(onceover.scan_log(sample).remarks, "topic", "partition", "level", "remark")

    assert [row[:3] for row in found] == [
        ("orders", 0, "note"),
        ("orders", 1, "warning"),
        ("payments", 0, "warning"),
    ]
    assert found[1][3].startswith("1 open transaction: the oldest, of producer 4001 epoch 0")
    assert found[2][3].startswith("torn tail at byte 743: 100 trailing bytes")


@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda path: path.name)
def test_producers_are_the_same_plain_and_compiled(recording: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = onceover.scan_log(recording / "data").producers
    monkeypatch.setattr(scan_log, "is_fold_fast_for", lambda _: True)

    assert onceover.scan_log(recording / "data").producers.equals(plain)


def test_a_small_log_is_scanned_without_a_compiler(sample: Path) -> None:
    program = "import onceover, sys; onceover.scan_log(sys.argv[1]); print('numba' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program, str(sample)], capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"


@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda path: path.name)
def test_batches_and_aborted_transactions_are_those_that_inspect_finds(recording: Path) -> None:
    found = onceover.scan_log(recording / "data")
    for files in find_partitions(recording / "data"):
        if files.topic is None or files.topic.startswith("__"):
            continue
        log = read_partition(Path(files.url))
        batches = found.batches.filter(
            (pc.field("topic") == files.topic) & (pc.field("partition") == files.partition)
        )
        assert batches["base_offset"].to_pylist() == log.batches.base_offset.tolist()
        assert batches["crc"].to_pylist() == log.batches.crc.tolist()
        aborted = [
            row[2:]
            for row in rows_of(
                found.aborted, "topic", "partition", "producer_id", "first_offset", "last_offset"
            )
            if row[:2] == (files.topic, files.partition)
        ]
        expected = log.visibility.aborted_txns
        columns = (expected.producer_id, expected.first_offset, expected.last_offset)
        assert aborted == list(zip(*(column.tolist() for column in columns), strict=True))


def test_producers_are_those_of_the_brokers_last_snapshot() -> None:
    compared = 0
    for recording in RECORDINGS:
        offsets = json.loads((recording / "offsets.json").read_text())
        found = onceover.scan_log(recording / "data").producers
        for name, ends in offsets.items():
            topic, _, partition = name.rpartition("-")
            snapshot = recording / "data" / name / f"{ends['high_watermark']:020}.snapshot"
            if ends["log_start_offset"] or not snapshot.exists():
                continue
            entries = read_snapshot(snapshot.read_bytes())
            expected = sorted(
                (
                    entry.producer_id,
                    entry.producer_epoch,
                    entry.coordinator_epoch,
                    entry.current_txn_first_offset,
                )
                for entry in entries
            )
            names = ("topic", "partition", "producer_id", "producer_epoch", "coordinator_epoch")
            rows = rows_of(found, *names, "txn_first_offset")
            assert [row[2:] for row in rows if row[:2] == (topic, int(partition))] == expected, name
            compared += len(expected)
    assert compared > 20


def batch(sequence: int, *, producer_id: int = 7, transactional: bool = False) -> bytes:
    return build_batch(
        records=[Record(value=b"v")],
        base_timestamp=0,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=sequence,
        is_transactional=transactional,
    )


def test_verdicts_are_a_brokers() -> None:
    found = onceover.admit([batch(0), batch(0), batch(2), batch(1), batch(0)[:-1] + b"x"]).verdicts

    assert rows_of(found, "verdict", "kafka_error", "base_offset") == [
        ("accepted", "NONE", 0),
        ("duplicate", "NONE", 0),
        ("out_of_order", "OUT_OF_ORDER_SEQUENCE_NUMBER", None),
        ("accepted", "NONE", 1),
        ("corrupt", "CORRUPT_MESSAGE", None),
    ]
    assert found["reason"].to_pylist()[1:3] == [
        "the batch at sequence 0 of epoch 0 is at offset 0 already",
        "expected sequence 1 of epoch 0, found 2",
    ]


def test_the_state_continues_where_the_call_before_ended() -> None:
    first = onceover.admit([batch(0), batch(1)])
    again = onceover.admit(batch(1) + batch(2), first.state)

    assert again.verdicts["verdict"].to_pylist() == ["duplicate", "accepted"]
    assert first.state.end_offset == 2
    assert again.state.end_offset == 3


def test_a_marker_ends_the_transaction_of_its_producer() -> None:
    marker = write_marker(
        base_offset=0,
        partition_leader_epoch=0,
        timestamp=0,
        producer_id=7,
        producer_epoch=1,
        control_type=ControlType.COMMIT,
        coordinator_epoch=0,
    )
    opened = onceover.admit(batch(0, transactional=True)).state
    ended = onceover.admit(marker, opened)

    assert opened.producers[7].current_txn_first_offset == 0
    assert ended.verdicts["verdict"].to_pylist() == ["accepted"]
    assert ended.state.producers[7].current_txn_first_offset is None


def test_anything_but_bytes_is_refused() -> None:
    with pytest.raises(onceover.UnknownOption, match="expected bytes, found str"):
        onceover.admit(["text"])  # type: ignore[list-item]
