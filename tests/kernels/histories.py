"""Histories of one partition as producers, zombies and coordinators could write them."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from hypothesis import strategies as st

from spark_jobs.kafka.formats.control_record import ControlType, EndTransactionMarker
from spark_jobs.kafka.producers.admission import MAX_PRODUCER_EPOCH
from spark_jobs.kafka.producers.sequence import MAX_SEQUENCE, increment_sequence
from spark_jobs.kafka.producers.verdict import BatchRow
from spark_jobs.kernels.admission import BatchColumns, batch_columns
from spark_jobs.kernels.columns import NO_CONTROL_TYPE, NO_COORDINATOR_EPOCH
from tests.cases.batch_rows import T0, data, header

ACTIONS = (
    "continue", "continue", "continue", "continue", "repeat", "repeat", "gap", "partial", "bump", "zombie",
    "anywhere", "commit", "abort", "commit", "abort", "late_marker", "empty_control", "other_control",
    "plain", "odd",
)  # fmt: skip
CONTROL_ACTIONS = {"commit", "abort", "late_marker", "empty_control", "other_control"}
NEAR_THE_WRAP = st.sampled_from((0, 1, 7, MAX_SEQUENCE - 3, MAX_SEQUENCE - 1, MAX_SEQUENCE))
FIRST_SEQUENCES = {
    "bump": st.sampled_from((0, 0, 0, 5)),
    "anywhere": NEAR_THE_WRAP | st.integers(0, MAX_SEQUENCE),
    "odd": st.integers(-1, 2),
}


@dataclass(slots=True)
class _Producer:
    """A producer's own state: its epoch, and the sequences that it has sent."""

    producer_id: int
    epoch: int = 0
    next_sequence: int = 0
    sent: list[tuple[int, int]] = field(default_factory=list)


def columns_of(rows: Sequence[BatchRow]) -> BatchColumns:
    """The same rows as columns."""
    headers = [row.header for row in rows]
    markers = [row.marker for row in rows]
    return batch_columns((
        [header.base_offset for header in headers],
        [header.attributes for header in headers],
        [header.last_offset_delta for header in headers],
        [header.max_timestamp for header in headers],
        [header.producer_id for header in headers],
        [header.producer_epoch for header in headers],
        [header.base_sequence for header in headers],
        [header.record_count for header in headers],
        [NO_CONTROL_TYPE if marker is None else marker.control_type for marker in markers],
        [NO_COORDINATOR_EPOCH if marker is None else marker.coordinator_epoch for marker in markers],
    ))  # fmt: skip


@st.composite
def histories(draw: st.DrawFn, *, with_offsets: bool = False) -> list[BatchRow]:
    """Up to 40 batches of four producers; `with_offsets` as in a log, else as clients send them."""
    producers = [_Producer(producer_id=number) for number in range(4)]
    rows: list[BatchRow] = []
    offset = 0
    for timestamp in range(draw(st.integers(0, 40))):
        action, producer = draw(st.sampled_from(ACTIONS)), draw(st.sampled_from(producers))
        next_row = _control_row if action in CONTROL_ACTIONS else _data_row
        row = next_row(draw, action, producer)
        base_offset = (offset if with_offsets else 0) + (action == "odd" and draw(st.integers(0, 1)))
        placed = replace(row.header, base_offset=base_offset, max_timestamp=T0 + timestamp)
        rows.append(replace(row, header=placed))
        offset += placed.last_offset_delta + 1 + draw(st.integers(0, 2))
    return rows


def _data_row(draw: st.DrawFn, action: str, producer: _Producer) -> BatchRow:
    first, delta = _sequences(draw, action, producer)
    if action == "bump":
        producer.epoch = min(producer.epoch + draw(st.integers(1, 2)), MAX_PRODUCER_EPOCH)
    if action in {"continue", "bump", "anywhere"}:
        producer.sent.append((first, delta))
        producer.next_sequence = increment_sequence(first, delta + 1)
    has_producer = action != "plain"
    return data(
        pid=producer.producer_id if has_producer else -1,
        epoch=producer.epoch - (action == "zombie") if has_producer else -1,
        seq=first if has_producer else -1,
        count=delta + 1,
        records=draw(st.integers(-1, 2)) if action == "odd" else None,
        txn=draw(st.sampled_from((False, True, True))),
    )


def _sequences(draw: st.DrawFn, action: str, producer: _Producer) -> tuple[int, int]:
    """The first sequence of the next batch, and how many follow it."""
    following, delta = producer.next_sequence, draw(st.sampled_from((0, 0, 1, 2, 9)))
    if action == "repeat" and producer.sent:
        return producer.sent[-draw(st.integers(1, min(7, len(producer.sent))))]
    if action == "partial" and producer.sent:
        return producer.sent[-1][0], delta + 1
    if action == "gap":
        return increment_sequence(following, draw(st.integers(1, 3))), delta
    return draw(FIRST_SEQUENCES.get(action, st.just(following))), delta


def _control_row(draw: st.DrawFn, action: str, producer: _Producer) -> BatchRow:
    marker, epoch = None, min(producer.epoch + draw(st.sampled_from((0, 0, 1))), MAX_PRODUCER_EPOCH)
    if action == "late_marker":
        epoch = draw(st.sampled_from((producer.epoch - 1, MAX_PRODUCER_EPOCH)))
    if action in {"commit", "abort", "late_marker"}:
        producer.epoch = max(producer.epoch, epoch)
        producer.next_sequence = draw(st.sampled_from((producer.next_sequence, 0)))
        marker = EndTransactionMarker(
            control_type=ControlType.ABORT if action == "abort" else ControlType.COMMIT,
            coordinator_epoch=draw(st.sampled_from((3, 3, 3, 4, 2))),
        )
    found = header(
        pid=draw(st.sampled_from((producer.producer_id,) * 3 + (-1,))),
        epoch=epoch,
        seq=-1,
        records=0 if action == "empty_control" else 1,
        txn=draw(st.sampled_from((False, True, True))),
        control=True,
    )
    return BatchRow(header=found, marker=marker)
