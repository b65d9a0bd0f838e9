import numpy as np
import pytest

from spark_jobs.pipeline.audit.worker import AcceptedOffsets
from tests.pipeline.audit.batches import NO_GAPS, accepted


def _facts(
    *parts: list[tuple[int, int]], gaps: list[tuple[int, int]] | None = None, start: int = 0
) -> tuple[int, int]:
    """(disordered, missing) of parts of batches, each a first and a last offset."""
    offsets = AcceptedOffsets(start, np.array(gaps, dtype=np.int64) if gaps else NO_GAPS)
    for part in parts:
        offsets.add(accepted(*({"offset": a, "last_offset_delta": b - a} for a, b in part)))
    facts = offsets.facts(is_compacted=False)
    return facts["disordered_batches"], facts["missing_offsets"]


def test_batches_that_follow_one_another_are_fine() -> None:
    assert _facts([(0, 4), (5, 5)], [], [(6, 9)]) == (0, 0)


def test_the_log_continues_where_it_stopped() -> None:
    assert _facts([(7, 9)], start=7) == (0, 0)
    assert _facts([(8, 9)], start=7) == (0, 1)
    assert _facts([(6, 9)], start=7) == (1, 0)


@pytest.mark.parametrize("second", [(4, 6), (0, 4), (2, 3)])
def test_an_offset_that_comes_again_is_disorder(second: tuple[int, int]) -> None:
    assert _facts([(0, 4), second])[0] == 1
    assert _facts([(0, 4)], [second])[0] == 1


def test_a_hole_must_have_been_reported() -> None:
    assert _facts([(0, 4), (8, 9)]) == (0, 3)
    assert _facts([(0, 4), (8, 9)], gaps=[(5, 7)]) == (0, 0)
    assert _facts([(0, 4), (8, 9)], gaps=[(5, 6)]) == (0, 1)
    assert _facts([(0, 4), (5, 9)], gaps=[(5, 7)]) == (0, 3)


def test_a_compacted_log_has_holes() -> None:
    offsets = AcceptedOffsets(0, NO_GAPS)
    offsets.add(accepted({"offset": 5}, {"offset": 9}))
    assert offsets.facts(is_compacted=True)["missing_offsets"] == 0


def test_what_seems_to_be_missing_before_a_legacy_wrapper_is_inside() -> None:
    offsets = AcceptedOffsets(0, NO_GAPS)
    offsets.add(accepted({"magic": 1, "attributes": 1, "offset": 9}, {"offset": 10}))
    assert offsets.facts(is_compacted=False) == {"disordered_batches": 0, "missing_offsets": 0}
