"""Parts of transactions over nights: which of them are the same, and which have ended unseen."""

import numpy as np

from spark_jobs.kernels.producers import Rows
from spark_jobs.kernels.transactions import NO_MARKER
from spark_jobs.protocol.producer_state import NO_OFFSET
from spark_jobs.resolving.part_rows import PART, joined, part_order

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
    waiting = _parts({"first_offset": 10}, {"first_offset": 20}, {"first_offset": 5, "marker_type": 1})
    night = _parts({"first_offset": 20, "began_before": 1})

    rows = joined(waiting, night, {0: GAP})

    assert rows["first_offset"].tolist() == [10, 5, 20]
    assert _gaps(rows) == [GAP, (NO_OFFSET, NO_OFFSET), (NO_OFFSET, NO_OFFSET)]


def test_without_a_gap_on_its_partition_what_waited_goes_on_waiting() -> None:
    rows = joined(_parts({"first_offset": 10}), _parts(), {7: GAP})
    assert _gaps(rows) == [(NO_OFFSET, NO_OFFSET)]


def test_what_ended_in_a_gap_comes_before_what_began_behind_it() -> None:
    ended = {"first_offset": 10, "gap_first_offset": 50, "gap_last_offset": 99}
    rows = _parts({"first_offset": 120}, {"first_offset": 100, "marker_type": 1, "marker_offset": 110}, ended)
    assert rows[part_order(rows)]["first_offset"].tolist() == [10, 100, 120]
