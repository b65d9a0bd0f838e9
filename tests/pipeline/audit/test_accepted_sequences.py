from typing import Any

import numpy as np
import pytest

from spark_jobs.kafka.producers.sequence import MAX_SEQUENCE
from spark_jobs.kernels.producers import PRODUCER, Rows
from spark_jobs.pipeline.audit.sequences import AcceptedSequences
from tests.pipeline.audit.batches import NO_GAPS, accepted, sent


def _state(*producers: tuple[int, int, int | None]) -> Rows:
    """Producers by id with their epoch and last sequence, None for one without batches."""
    rows = np.zeros(len(producers), dtype=PRODUCER)
    for row, (producer, epoch, last) in zip(rows, producers, strict=True):
        row["producer_id"], row["producer_epoch"] = producer, epoch
        row["batches"] = 0 if last is None else 2
        row["last_sequence"][1] = last or 0
    return rows


def _broken(*parts: list[dict[str, Any]], state: Rows | None = None, gaps: Any = NO_GAPS) -> int:
    sequences = AcceptedSequences(_state() if state is None else state, gaps)
    for part in parts:
        sequences.add(accepted(*part))
    return sequences.broken


def test_producers_count_on_each_for_itself() -> None:
    rows = [sent(1, 0, 0, records=3), sent(2, 0, 0), sent(1, 0, 3), sent(2, 0, 1)]
    assert _broken(rows) == 0
    assert _broken(*([row] for row in rows)) == 0


def test_a_gap_is_found_within_a_part_and_across_parts() -> None:
    assert _broken([sent(1, 0, 0), sent(2, 0, 0), sent(1, 0, 2)]) == 1
    assert _broken([sent(1, 0, 0)], [sent(2, 0, 0)], [sent(1, 0, 2)]) == 1


def test_producers_may_come_up_in_any_part_beside_those_that_are_known() -> None:
    parts = [
        [sent(5, 0, 0), sent(3, 0, 0), sent(5, 0, 1)],
        [sent(4, 0, 0), sent(5, 0, 2), sent(9, 0, 0)],
        [sent(9, 0, 1), sent(1, 0, 0), sent(4, 0, 1), sent(3, 0, 1)],
    ]
    assert _broken(*parts, [sent(1, 0, 1), sent(3, 0, 2), sent(4, 0, 2), sent(5, 0, 3), sent(9, 0, 2)]) == 0
    assert _broken(*parts, [sent(1, 0, 2), sent(3, 0, 1), sent(4, 0, 1), sent(5, 0, 2), sent(9, 0, 1)]) == 5


def test_a_sequence_that_comes_again_is_no_continuation_either() -> None:
    assert _broken([sent(1, 0, 0), sent(1, 0, 0)]) == 1


def test_a_new_epoch_counts_from_zero() -> None:
    assert _broken([sent(1, 0, 0), sent(1, 1, 0), sent(1, 1, 1)]) == 0
    assert _broken([sent(1, 0, 0), sent(1, 1, 1)]) == 1


@pytest.mark.parametrize(("sequence", "broken"), [(8, 0), (0, 1), (9, 1)])
def test_a_producer_continues_where_the_run_before_left_it(sequence: int, broken: int) -> None:
    assert _broken([sent(5, 3, sequence)], state=_state((4, 0, 1), (5, 3, 7))) == broken


def test_whoever_is_unknown_may_begin_anywhere_but_not_jump_then() -> None:
    assert _broken([sent(5, 3, 70), sent(5, 3, 71)]) == 0
    assert _broken([sent(5, 3, 70), sent(5, 3, 72)]) == 1


def test_a_producer_whose_epoch_a_marker_raised_begins_at_zero() -> None:
    assert _broken([sent(5, 3, 0)], state=_state((5, 3, None))) == 0
    assert _broken([sent(5, 3, 4)], state=_state((5, 3, None))) == 1


def test_sequences_wrap() -> None:
    assert _broken([sent(1, 0, MAX_SEQUENCE - 1, records=2), sent(1, 0, 0)]) == 0
    assert _broken([sent(1, 0, MAX_SEQUENCE, records=3), sent(1, 0, 2)]) == 0


def test_a_reported_gap_of_offsets_excuses_one_of_sequences() -> None:
    rows = [sent(1, 0, 0, offset=0), sent(1, 0, 5, offset=9)]
    assert _broken(rows, gaps=np.array([[3, 6]])) == 0
    assert _broken(rows, gaps=np.array([[12, 20]])) == 1


def test_markers_and_plain_batches_have_no_sequence() -> None:
    marker = sent(1, 0, -1) | {"attributes": 0x30}
    assert _broken([sent(1, 0, 0), marker, {}, sent(1, 0, 1)]) == 0


def test_a_producer_that_may_have_expired_may_begin_anywhere() -> None:
    for idle_since, broken in ((99, 0), (100, 1)):
        sequences = AcceptedSequences(_state(), NO_GAPS, expired_before=100)
        sequences.add(accepted(sent(1, 0, 0, timestamp=idle_since), sent(1, 0, 77, timestamp=200)))
        assert sequences.broken == broken
