"""Many batches written to a log at once equal those that the pure functions write one by one."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.kafka.formats.control_record import ControlType, write_marker
from spark_jobs.kafka.formats.record_batch import assign_offset
from spark_jobs.kernels.columns import concatenate
from spark_jobs.kernels.log_bytes import MARKER_SIZE, marker_batches, marker_checksums, place_batches
from spark_jobs.kernels.scan import scan_headers
from tests.pipeline.batches import batch

INT64 = st.integers(-(2**63), 2**63 - 1)
INT32 = st.integers(-(2**31), 2**31 - 1)
INT16 = st.integers(-(2**15), 2**15 - 1)
MARKERS = st.lists(
    st.fixed_dictionaries(
        {
            "max_timestamp": INT64,
            "producer_id": INT64,
            "producer_epoch": INT16,
            "control_type": st.sampled_from([ControlType.ABORT, ControlType.COMMIT]),
            "coordinator_epoch": INT32,
        }
    ),
    max_size=5,
)
KINDS = {
    "max_timestamp": np.int64,
    "producer_id": np.int64,
    "producer_epoch": np.int16,
    "control_type": np.int16,
    "coordinator_epoch": np.int32,
}


def columns(markers: list[dict[str, Any]]) -> dict[str, Any]:
    return {name: np.array([each[name] for each in markers], dtype=kind) for name, kind in KINDS.items()}


@given(MARKERS)
def test_markers_are_those_of_the_protocol(markers: list[dict[str, Any]]) -> None:
    expected = [
        write_marker(
            base_offset=0, partition_leader_epoch=0, timestamp=each["max_timestamp"],
            **{name: each[name] for name in KINDS if name != "max_timestamp"},
        )
        for each in markers
    ]  # fmt: skip
    assert marker_batches(columns(markers)).tobytes() == b"".join(expected)
    checksums = [int.from_bytes(each[17:21]) for each in expected]
    assert marker_checksums(columns(markers)).tolist() == checksums
    assert all(len(each) == MARKER_SIZE for each in expected)


@given(st.lists(st.tuples(INT64, st.integers(1, 40)), min_size=1, max_size=6), INT32)
def test_placed_batches_are_stamped_and_otherwise_as_sent(
    sent: list[tuple[int, int]], leader_epoch: int
) -> None:
    batches = [batch(number, count=count) for number, (_, count) in enumerate(sent)]
    source = b"refused".join(batches)
    found = [scan_headers(each).columns for each in batches]
    positions = np.cumsum([0, *(len(each) + 7 for each in batches)])[:-1]
    offsets = np.array([offset for offset, _ in sent])
    headers = concatenate(found)._replace(position=positions, base_offset=offsets)
    target = np.zeros(int(headers.size.sum()), dtype=np.uint8)

    place_batches(target, np.cumsum(headers.size) - headers.size, source, headers, leader_epoch)

    expected = [
        assign_offset(each, base_offset=offset, partition_leader_epoch=leader_epoch)
        for each, (offset, _) in zip(batches, sent, strict=True)
    ]
    assert target.tobytes() == b"".join(expected)


@pytest.mark.parametrize(("position", "at"), [(-1, 0), (1, 0), (0, 1)])
def test_nothing_is_copied_from_or_to_where_no_bytes_are(position: int, at: int) -> None:
    data = batch()
    headers = scan_headers(data).columns._replace(position=np.array([position]))
    with pytest.raises(IndexError):
        place_batches(np.zeros(len(data), dtype=np.uint8), np.array([at]), data, headers, 0)
