"""What waits for a later run, as canonical bytes."""

from pathlib import Path

import numpy as np
import pytest

from spark_jobs.kafka.producers.producer_state import NO_OFFSET
from spark_jobs.kernels.partition_transactions import NO_MARKER
from spark_jobs.lake.errors import BrokenState
from spark_jobs.lake.file_store import FileStore
from spark_jobs.lake.folds import HELD_PART, STRETCH, HeldState, get_held, put_held, read_held, write_held
from spark_jobs.lake.layout import state_key


def held_state() -> HeldState:
    transactions = np.zeros(2, dtype=HELD_PART)
    transactions["producer_id"] = (5, 2**40)
    transactions["first_offset"] = (90, 17)
    transactions["marker_type"] = (NO_MARKER, 1)
    transactions["is_below_published"] = (1, 0)
    transactions["gap_first_offset"] = transactions["gap_last_offset"] = NO_OFFSET
    stretches = np.array([(0, 3, bytes(range(32))), (2, 4, bytes(32))], dtype=STRETCH)
    return HeldState(published_offset=17, has_markers=False, transactions=transactions, stretches=stretches)


def test_what_waits_survives_its_bytes_with_transactions_by_first_offset() -> None:
    read = read_held(write_held(held_state()))
    assert (read.published_offset, read.has_markers, read.held_batches) == (17, False, 7)
    assert read.transactions["first_offset"].tolist() == [17, 90]
    assert read.transactions["producer_id"].tolist() == [2**40, 5]
    assert read.transactions["marker_type"].tolist() == [1, NO_MARKER]
    assert read.transactions["is_below_published"].tolist() == [0, 1]
    assert read.held == (bytes(range(32)).hex(), bytes(32).hex())
    assert write_held(read) == write_held(held_state())


def test_gaps_of_transactions_are_reported_by_a_version_that_others_do_not_need() -> None:
    spanning = held_state()
    spanning.transactions["gap_first_offset"] = (93, NO_OFFSET)
    spanning.transactions["gap_last_offset"] = (95, NO_OFFSET)
    data = write_held(spanning)
    read = read_held(data)
    assert read.transactions["gap_first_offset"].tolist() == [NO_OFFSET, 93]
    assert read.transactions["gap_last_offset"].tolist() == [NO_OFFSET, 95]
    assert write_held(read) == data
    assert (data[5], write_held(held_state())[5]) == (2, 1)


def test_how_runs_were_cut_does_not_show() -> None:
    began_before = held_state()
    began_before.transactions["began_before"] = 1
    assert write_held(began_before) == write_held(held_state())


def test_a_file_in_the_lake_is_named_by_its_content(tmp_path: Path) -> None:
    lake = FileStore(str(tmp_path))
    digest = put_held(lake, held_state())
    assert write_held(get_held(lake, digest)) == write_held(held_state())
    assert get_held(lake, "").published_offset == 0
    lake.put(state_key(digest), b"other bytes")
    with pytest.raises(BrokenState, match="expected SHA-256"):
        get_held(lake, digest)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"CARR" + write_held(held_state())[4:],
        write_held(held_state())[:-1],
        write_held(held_state()) + b"?",
    ],
)
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(BrokenState):
        read_held(data, source="state/ab")
