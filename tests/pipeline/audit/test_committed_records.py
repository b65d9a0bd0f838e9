from typing import Any

import numpy as np

from spark_jobs.kafka.topic_partition import TopicPartition
from spark_jobs.pipeline.audit.columns import TransactionOffsets
from spark_jobs.pipeline.audit.job import PartitionInputs
from spark_jobs.pipeline.audit.worker import CommittedRecords
from tests.pipeline.audit.batches import accepted

OUTCOMES = TransactionOffsets(
    first_offset=np.array([10, 20, 30]),
    last_offset=np.array([19, 29, 39]),
    producer_id=np.array([1, 1, 1]),
    is_committed=np.array([True, False, True]),
)
INPUTS = PartitionInputs(partition=TopicPartition("orders", 0), first_offset=5, end_offset=35, late=(3,))


def _counted(*rows: dict[str, Any]) -> tuple[int, int, int]:
    counter = CommittedRecords(INPUTS, OUTCOMES)
    counter.add(accepted(*rows))
    facts = counter.facts()
    return facts["committed_records"], facts["uncertain_records"], facts["uncounted_batches"]


def _batch(offset: int, txn: int | None = None, **changes: int) -> dict[str, Any]:
    return {"offset": offset, "record_count": 2, "last_offset_delta": 1, "txn_first_offset": txn} | changes


def test_plain_and_committed_batches_within_the_range_count() -> None:
    assert _counted(_batch(5), _batch(10, 10), _batch(33), _batch(30, 30)) == (8, 0, 0)


def test_aborted_unknown_and_control_batches_do_not() -> None:
    assert _counted(_batch(20, 20), _batch(12, 11), _batch(12, attributes=0x20)) == (0, 0, 0)


def test_what_is_before_or_after_the_range_does_not() -> None:
    assert _counted(_batch(3), _batch(35), _batch(40)) == (0, 0, 0)


def test_a_batch_across_the_start_is_uncertain() -> None:
    assert _counted(_batch(4)) == (2, 2, 0)


def test_a_late_transaction_counts_though_it_is_before() -> None:
    outcomes = TransactionOffsets(
        first_offset=np.array([3]),
        last_offset=np.array([4]),
        producer_id=np.array([1]),
        is_committed=np.array([True]),
    )
    counter = CommittedRecords(INPUTS, outcomes)
    counter.add(accepted(_batch(3, 3)))
    assert counter.facts()["committed_records"] == 2


def test_old_formats_do_not_say_how_many() -> None:
    assert _counted(_batch(7, magic=1, record_count=-1)) == (0, 0, 1)
