"""Logs with transactions: from short descriptions, or random."""

from collections.abc import Iterable

from hypothesis import strategies as st

from spark_jobs.kafka.formats.control_record import read_marker
from spark_jobs.kafka.log.segment import scan
from spark_jobs.kafka.transactions.partition_transactions import LogBatch
from tests.kafka.broker_batches import abort_batch, commit_batch, data_batch, plain_batch


def log_batches(*batches: bytes) -> tuple[LogBatch, ...]:
    """Headers and markers of a log's batches."""
    data = b"".join(batches)
    return tuple(
        (batch.header, read_marker(data[batch.position : batch.end]) if batch.header.is_control else None)
        for batch in scan(data)
    )


def write_log(steps: Iterable[tuple[str, int]]) -> tuple[bytes, ...]:
    """Batches at consecutive offsets: ("data", pid), ("commit", pid), ("abort", pid), ("plain", count)."""
    batches, offset, sequences = list[bytes](), 0, dict[int, int]()
    for kind, number in steps:
        if kind == "data":
            sequence = sequences.get(number, 0)
            batches.append(data_batch(pid=number, seq=sequence, count=2, txn=True, at=offset))
            sequences[number] = sequence + 2
        elif kind == "plain":
            batches.append(plain_batch(count=number, at=offset))
        else:
            write = commit_batch if kind == "commit" else abort_batch
            batches.append(write(pid=number, at=offset))
        offset += {"data": 2, "plain": number}.get(kind, 1)
    return tuple(batches)


STEPS = st.lists(
    st.tuples(st.sampled_from(("data", "data", "data", "commit", "abort", "plain")), st.integers(1, 4)),
    max_size=40,
)
