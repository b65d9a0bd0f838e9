"""The kernels on bytes that a real broker wrote or was sent."""

from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

from spark_jobs.kafka.errors import InvalidRecord, KafkaError
from spark_jobs.kafka.formats.control_record import read_marker
from spark_jobs.kafka.formats.record_batch import MAGIC_V2, read_header
from spark_jobs.kafka.producers import admission
from spark_jobs.kafka.producers.producer_state import AppendOrigin, ProducerStates
from spark_jobs.kafka.producers.verdict import VERDICTS, BatchRow, Rules
from spark_jobs.kafka.topic_partition import TopicPartition
from spark_jobs.kernels.admission import batches_of, fold
from spark_jobs.kernels.columns import HeaderColumns, concatenate
from spark_jobs.kernels.producers import ProducerTable, states_of
from spark_jobs.kernels.scan import scan_headers
from tests.kernels.test_admission import decisions_of
from tests.kernels.test_records import check
from tests.kernels.twins import kernel_scan, pure_scan
from tests.recordings.events import Produce
from tests.recordings.recording import read_recording

DATA = Path(__file__).parents[1] / "recordings" / "data"
PARTITIONS = sorted({file.parent for file in DATA.rglob("*.log") if file.stat().st_size})
SENT = ("oracle_A", "oracle_D", "oracle_E", "scenarios")


def segments(partition: Path) -> list[bytes]:
    return [file.read_bytes() for file in sorted(partition.glob("*.log"))]


def row_of(batch: bytes) -> BatchRow:
    try:
        marker = read_marker(batch)
    except InvalidRecord:
        marker = None
    return BatchRow(header=read_header(batch), marker=marker)


def rows_of(data: bytes, columns: HeaderColumns) -> list[BatchRow]:
    places = zip(columns.position.tolist(), columns.size.tolist(), strict=True)
    return [row_of(data[position : position + size]) for position, size in places]


@pytest.mark.parametrize("partition", PARTITIONS, ids=lambda path: str(path.relative_to(DATA)))
def test_a_broker_s_log_is_read_as_by_the_pure_twin(partition: Path) -> None:
    for data in segments(partition):
        assert kernel_scan(scan_headers(data)) == pure_scan(data)
        check(data)


@pytest.mark.parametrize("partition", PARTITIONS, ids=lambda path: str(path.relative_to(DATA)))
def test_a_broker_s_log_leaves_the_producers_of_the_pure_twin(partition: Path) -> None:
    rules = Rules(origin=AppendOrigin.REPLICATION)
    logs, table = segments(partition), ProducerTable()
    scans = [scan_headers(data).columns for data in logs]
    rows = [row for data, scan in zip(logs, scans, strict=True) for row in rows_of(data, scan)]
    found = fold(batches_of(concatenate(scans)), table, rules=rules)
    expected, states = admission.fold(ProducerStates(), rows, rules=rules)
    assert decisions_of(found, rows) == expected
    assert states_of(table) == states


def sent(recording: str) -> dict[TopicPartition, list[tuple[bytes, tuple[int, int]]]]:
    """What producers sent to each partition, with the broker's error code and base offset."""
    batches = defaultdict(list)
    for conversation in read_recording(DATA / recording).conversations:
        for event in conversation.events:
            for part in event.parts if isinstance(event, Produce) else ():
                reply = (
                    (-1, -1) if part.reply is None else (part.reply["error_code"], part.reply["base_offset"])
                )
                batches[part.topic_partition].append((part.records, reply))
    return batches


@pytest.mark.parametrize("recording", SENT)
def test_what_producers_sent_is_judged_as_by_the_pure_twin(recording: str) -> None:
    for batches in sent(recording).values():
        data = b"".join(batch for batch, _ in batches)
        scan = scan_headers(data, check_crc=False, check_magic=False).columns
        scan = scan.pick(scan.magic >= MAGIC_V2)
        rows = rows_of(data, scan)
        table = ProducerTable()
        found = fold(batches_of(scan), table, rules=Rules())
        expected, states = admission.fold(ProducerStates(), rows, rules=Rules())
        assert decisions_of(found, rows) == expected
        assert states_of(table) == states


def holds_one_batch(request: bytes) -> bool:
    return scan_headers(request, check_crc=False).columns.rows == 1


def test_idempotent_producers_get_the_broker_s_own_answers() -> None:
    """Requests of two batches are left out: the broker rejects them before it checks producers."""
    for topic_partition, requests in sent("oracle_A").items():
        batches = [(batch, reply) for batch, reply in requests if holds_one_batch(batch)]
        scan = scan_headers(b"".join(batch for batch, _ in batches), stop_at_bad_crc=False).columns
        found = fold(batches_of(scan.pick(scan.crc_ok)), ProducerTable(), rules=Rules())
        answers = [(int(KafkaError.CORRUPT_MESSAGE), -1)] * scan.rows
        for row, verdict, base_offset in zip(
            np.flatnonzero(scan.crc_ok), found.verdict, found.base_offset, strict=True
        ):
            answers[row] = (int(VERDICTS[verdict].kafka_error), int(base_offset))
        assert answers == [reply for _, reply in batches], topic_partition
