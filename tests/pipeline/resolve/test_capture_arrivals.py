"""Captures without markers: batches that come again, too early or late do not move the end of a transaction.

A transaction's end never refuses what a broker took before it.
"""

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from spark_jobs.flow import Step
from spark_jobs.kafka.coordinator.transaction_metadata import TransactionResult
from spark_jobs.kafka.formats.batch_builder import build_batch
from spark_jobs.kafka.formats.records import Record
from spark_jobs.lake.layout import step_key
from spark_jobs.lake.parquet_file import read_table
from spark_jobs.tables.admit import MARKER_OBJECT
from tests.kafka.txn_cluster import PARTITIONS, TV0, Cluster, Producer
from tests.pipeline.resolve.capture_lake import CAPTURE
from tests.pipeline.resolve.run_lake import RunLake
from tests.pipeline.resolve.test_resolve_cases import at_run, cluster_at, started

COMMIT, ABORT = TransactionResult.COMMIT, TransactionResult.ABORT
PARTITION = PARTITIONS[0]


@dataclass(slots=True)
class Gateway:
    """Captures one partition; a run's verdicts come in the order of judgement, with their outcomes."""

    lake: RunLake
    cluster: Cluster = field(default_factory=lambda: cluster_at(0))
    sent: list[bytes] = field(default_factory=list)

    def arrive(self, producer: Producer, sequence: int, *, is_transactional: bool = True) -> None:
        if is_transactional:
            self.cluster.join(producer, PARTITION)
        self.sent.append(
            build_batch(
                records=[Record(value=b"x")],
                base_timestamp=self.cluster.now,
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                base_sequence=sequence,
                is_transactional=is_transactional,
            )
        )

    def arrive_again(self, place: int) -> None:
        self.sent.append(self.sent[place])

    def end(self, producer: Producer, result: TransactionResult) -> None:
        self.cluster.end(producer, result)
        self.cluster.now += 10_000

    def run(self, number: int = 0) -> list[tuple[str, str]]:
        file = Path(self.lake.settings.source("gateway").root, str(PARTITION), f"{number:04d}")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"".join(self.sent))
        self.sent.clear()
        self.lake.copy_logs({}, self.cluster.entries)
        found = self.lake.run(number)
        own = found.partitions[PARTITION]
        table = read_table(self.lake.lake, step_key(found.run_id, Step.ADMIT, own["batches"]))
        return [
            (row["verdict"], found.outcomes.get((PARTITION, row["txn_first_offset"]), ""))
            for row in table.to_pylist()
            if row["object_order"] != MARKER_OBJECT
        ]


def gateway_at(directory: Path, *, on_gap: str = "reject") -> Gateway:
    config = CAPTURE.replace("SKEW", "1000").replace("VERSION", "TV2")
    return Gateway(RunLake(directory, config.replace("root: capture", f"root: capture, on_gap: {on_gap}")))


@pytest.fixture
def gateway(tmp_path: Path) -> Gateway:
    return gateway_at(tmp_path)


def test_a_batch_that_comes_too_early_does_not_end_its_transaction(gateway: Gateway) -> None:
    producer = started(gateway.cluster)
    for sequence in (0, 5, 1):
        gateway.arrive(producer, sequence)
    gateway.end(producer, COMMIT)
    gateway.arrive(producer, 0)
    gateway.end(producer, ABORT)
    assert gateway.run() == [
        ("accepted", "committed"),
        ("out_of_order", ""),
        ("accepted", "committed"),
        ("accepted", "aborted"),
    ]


def test_a_higher_epoch_that_begins_in_the_middle_does_not_end_the_transaction(gateway: Gateway) -> None:
    producer = started(gateway.cluster)
    gateway.arrive(producer, 0)
    stranger = Producer("b", producer.version, producer.producer_id, producer.producer_epoch + 1)
    gateway.arrive(stranger, 7)
    gateway.arrive(producer, 1)
    gateway.end(producer, COMMIT)
    assert gateway.run() == [("accepted", "committed"), ("out_of_order", ""), ("accepted", "committed")]


def test_a_retry_of_the_last_batch_is_a_duplicate_and_not_fenced(gateway: Gateway) -> None:
    producer = started(gateway.cluster)
    gateway.arrive(producer, 0)
    gateway.arrive_again(0)
    gateway.end(producer, COMMIT)
    gateway.arrive(producer, 0)
    gateway.arrive_again(0)
    gateway.end(producer, COMMIT)
    assert [verdict for verdict, _ in gateway.run()] == ["accepted", "duplicate", "accepted", "fenced"]


def test_a_retry_on_the_next_run_is_a_duplicate_while_its_transaction_was_open(gateway: Gateway) -> None:
    producer = started(gateway.cluster)
    gateway.arrive(producer, 0)
    again = gateway.sent[0]
    assert gateway.run() == [("accepted", "ongoing")]
    at_run(gateway.cluster, 1)
    gateway.sent.append(again)
    gateway.arrive(producer, 1)
    gateway.end(producer, COMMIT)
    assert gateway.run(1) == [("duplicate", ""), ("accepted", "committed")]


def test_a_plain_batch_between_two_transactions_leaves_them_apart(gateway: Gateway) -> None:
    producer = started(gateway.cluster)
    gateway.arrive(producer, 0)
    gateway.end(producer, COMMIT)
    gateway.arrive(producer, 0, is_transactional=False)
    gateway.arrive(producer, 1)
    gateway.end(producer, ABORT)
    gateway.arrive(producer, 0)
    gateway.end(producer, COMMIT)
    assert gateway.run() == [
        ("accepted", "committed"),
        ("accepted", ""),
        ("accepted", "aborted"),
        ("accepted", "committed"),
    ]


@pytest.mark.parametrize("result", [COMMIT, ABORT])
def test_a_plain_batch_inside_a_transaction_is_refused_and_what_follows_is_taken(
    gateway: Gateway, result: TransactionResult
) -> None:
    producer = started(gateway.cluster)
    gateway.arrive(producer, 0)
    gateway.arrive(producer, 1, is_transactional=False)
    gateway.arrive(producer, 1)
    gateway.end(producer, result)
    gateway.arrive(producer, 0)
    gateway.end(producer, COMMIT)
    outcome = "committed" if result is COMMIT else "aborted"
    assert gateway.run() == [
        ("accepted", outcome),
        ("invalid_transaction_state", ""),
        ("accepted", outcome),
        ("accepted", "committed"),
    ]


def test_the_end_of_a_fenced_older_client_is_behind_its_retries(gateway: Gateway) -> None:
    producer = started(gateway.cluster, version=TV0)
    gateway.arrive(producer, 0)
    gateway.arrive_again(0)
    gateway.cluster.now += 10_000
    gateway.cluster.init(producer)
    gateway.cluster.now += 10_000
    gateway.arrive(producer, 0)
    gateway.end(producer, COMMIT)
    assert gateway.run() == [("accepted", "aborted"), ("duplicate", ""), ("accepted", "committed")]


def test_a_batch_that_waits_for_its_gap_is_in_its_transaction(tmp_path: Path) -> None:
    gateway = gateway_at(tmp_path, on_gap="park")
    producer = started(gateway.cluster)
    for sequence in (0, 2, 1, 3):
        gateway.arrive(producer, sequence)
    gateway.end(producer, COMMIT)
    gateway.arrive(producer, 0)
    gateway.end(producer, ABORT)
    assert gateway.run() == [("accepted", "committed")] * 4 + [("accepted", "aborted")]


def test_a_transaction_does_not_end_while_batches_of_it_wait(tmp_path: Path) -> None:
    gateway = gateway_at(tmp_path, on_gap="park")
    producer = started(gateway.cluster)
    for sequence in (0, 2):
        gateway.arrive(producer, sequence)
    gateway.end(producer, COMMIT)
    assert gateway.run() == [("accepted", "committed"), ("parked", "")]
    at_run(gateway.cluster, 1)
    gateway.sent.append(
        build_batch(
            records=[Record(value=b"x")],
            base_timestamp=0,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch - 1,
            base_sequence=1,
            is_transactional=True,
        )
    )
    assert gateway.run(1) == [("accepted", "committed"), ("accepted", "committed")]
