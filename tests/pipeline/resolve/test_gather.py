"""Parts of transactions over runs: which of them are the same, and which have ended unseen."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.kafka.producers.producer_state import NO_OFFSET
from spark_jobs.kafka.topic_partition import TopicPartition
from spark_jobs.kafka.transactions.hanging import appended_by
from spark_jobs.kafka.transactions.partition_transactions import WrittenMarker
from spark_jobs.kernels.partition_transactions import NO_MARKER
from spark_jobs.kernels.producers import Rows
from spark_jobs.pipeline.resolve.gather import joined, note_appended
from spark_jobs.pipeline.resolve.parts import PART, part_order, partition_transactions
from spark_jobs.pipeline.resolve.run_partitions import NewestMarker

GAP = (50, 99)


def _parts(*rows: dict[str, int]) -> Rows:
    found = np.zeros(len(rows), dtype=PART)
    found["batches"], found["marker_type"] = 1, NO_MARKER
    found["gap_first_offset"] = found["gap_last_offset"] = NO_OFFSET
    for place, row in enumerate(rows):
        for name, number in row.items():
            found[name][place] = number
    return found


def _gaps(rows: Rows) -> list[tuple[int, int]]:
    return list(zip(rows["gap_first_offset"].tolist(), rows["gap_last_offset"].tolist(), strict=True))


def test_what_waited_and_is_open_no_longer_has_ended_in_the_gap() -> None:
    held = _parts({"first_offset": 10}, {"first_offset": 20}, {"first_offset": 5, "marker_type": 1})
    run = _parts({"first_offset": 20, "began_before": 1})

    rows = joined(held, run, {0: GAP})

    assert rows["first_offset"].tolist() == [10, 5, 20]
    assert _gaps(rows) == [GAP, (NO_OFFSET, NO_OFFSET), (NO_OFFSET, NO_OFFSET)]


def test_without_a_gap_on_its_partition_what_waited_continues_waiting() -> None:
    rows = joined(_parts({"first_offset": 10}), _parts(), {7: GAP})
    assert _gaps(rows) == [(NO_OFFSET, NO_OFFSET)]


def test_what_ended_in_a_gap_comes_before_what_began_behind_it() -> None:
    ended = {"first_offset": 10, "gap_first_offset": 50, "gap_last_offset": 99}
    rows = _parts({"first_offset": 120}, {"first_offset": 100, "marker_type": 1, "marker_offset": 110}, ended)
    assert rows[part_order(rows)]["first_offset"].tolist() == [10, 100, 120]


PARTITIONS = (TopicPartition("t", 0), TopicPartition("t", 1))
OFFSETS = st.integers(0, 12)
SOME_PARTS = st.lists(
    st.fixed_dictionaries(
        {
            "partition": st.integers(0, 1),
            "batches": st.integers(0, 1),
            "last_offset": OFFSETS,
            "marker_type": st.integers(-1, 1),
            "marker_offset": OFFSETS,
            "marker_timestamp": st.integers(0, 9),
        }
    ),
    max_size=12,
)
BEFORE = st.dictionaries(st.integers(0, 1), st.builds(NewestMarker, OFFSETS, st.integers(0, 9)))


def _marker(known: NewestMarker) -> WrittenMarker:
    return WrittenMarker(
        offset=known.offset,
        producer_epoch=0,
        coordinator_epoch=0,
        timestamp=known.timestamp,
        is_commit=True,
    )


@given(parts=SOME_PARTS, before=BEFORE)
def test_what_is_open_was_appended_by_the_time_of_markers_behind_it_as_the_plain_rule_says(
    parts: list[dict[str, int]], before: dict[int, NewestMarker]
) -> None:
    rows = _parts(*parts)
    note_appended(rows, before)
    found = list(partition_transactions(rows, PARTITIONS))
    for part in found:
        number = PARTITIONS.index(part.topic_partition)
        markers = [
            each.marker
            for each in found
            if each.marker is not None and each.topic_partition == part.topic_partition
        ]
        known = before.get(number)
        earlier = () if known is None else (_marker(known),)
        is_open = part.marker is None and part.batch_count > 0
        assert part.appended_by == (appended_by(part, (*markers, *earlier)) if is_open else None)


def test_noting_when_parts_were_appended_changes_nothing_else() -> None:
    rows = _parts({"last_offset": 3}, {"marker_type": 1, "marker_offset": 9, "marker_timestamp": 7})
    before = rows.copy()
    note_appended(rows, {})
    assert rows["appended_by"].tolist() == [7, -1]
    before["appended_by"] = rows["appended_by"]
    assert (rows == before).all()
