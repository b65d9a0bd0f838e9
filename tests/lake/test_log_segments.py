"""What the names of a copy's segments say: where each begins and ends, and which cannot have holes."""

import pytest

from spark_jobs.kafka.log.log_order import OFFSETS_PER_SEGMENT
from spark_jobs.lake.index_rows import SegmentPlace, segment_places
from spark_jobs.lake.manifest import ManifestEntry, ObjectRole


def entry(order: int, name: str, role: ObjectRole = ObjectRole.LOG) -> ManifestEntry:
    return ManifestEntry(order=order, source="s", role=role, path=f"t-0/{name}", size=1, sha256="")


def place(order: int, start: int, end: int, *, is_dense: bool = False) -> SegmentPlace:
    return SegmentPlace(object_order=order, start=start, end=end, is_dense=is_dense)


def test_a_segment_ends_where_the_next_one_begins_and_the_last_where_its_indexes_do() -> None:
    entries = [entry(3, "00000000000000000070.log"), entry(2, "00000000000000000005.log")]
    assert segment_places(entries, is_compacted=True) == (
        place(2, 5, 70),
        place(3, 70, 70 + OFFSETS_PER_SEGMENT),
    )


@pytest.mark.parametrize("is_compacted", [False, True])
def test_only_the_last_segment_has_no_holes_and_only_of_a_topic_that_is_not_compacted(
    is_compacted: bool,
) -> None:
    entries = [entry(2, "00000000000000000005.log"), entry(3, "00000000000000000070.log")]
    first, last = segment_places(entries, is_compacted=is_compacted)
    assert (first.is_dense, last.is_dense) == (False, not is_compacted)


def test_a_compacted_segment_on_its_way_in_has_holes() -> None:
    swap = entry(2, "00000000000000000005.log.swap", ObjectRole.SWAP)
    assert not segment_places([swap], is_compacted=False)[0].is_dense


def test_captures_have_no_segments() -> None:
    assert segment_places([], is_compacted=False) == ()
