"""Snapshots of every bad kind (facts §1.8, §6.2) in a run: passed over and named, or of no consequence."""

from collections.abc import Callable
from pathlib import Path

import pytest

from spark_jobs.kafka.formats.record_batch import crc32c
from tests.pipeline.admitted import admit
from tests.pipeline.batches import batch
from tests.pipeline.rebuild.test_rebuild import log_file, messages, origin, put, seeded, snapshot
from tests.pipeline.runs import Place

GOOD = snapshot(4, at=5)
"""What the log of `seeded` ends with: its newest snapshot, at offset 5."""


def _sealed(data: bytes) -> bytes:
    return data[:2] + crc32c(data[6:]).to_bytes(4, "big") + data[6:]


CORRUPT = {
    "empty": b"",
    "shorter than the smallest": GOOD[:9],
    "cut": GOOD[:-1],
    "garbage": b"garbage garbage garbage",
    "zeros": bytes(len(GOOD)),
    "over a longer file": GOOD + snapshot(4, 3, at=5)[len(GOOD) :],
    "one changed bit": GOOD[:30] + bytes([GOOD[30] ^ 1]) + GOOD[31:],
    "version 2": b"\0\2" + GOOD[2:],
    "version 0": b"\0\0" + GOOD[2:],
    "an entry more than there is": _sealed(GOOD[:6] + b"\0\0\0\2" + GOOD[10:]),
    "two billion entries": _sealed(GOOD[:6] + b"\x7f\xff\xff\xff" + GOOD[10:]),
    "fewer than no entries": _sealed(GOOD[:6] + b"\xff\xff\xff\xff" + GOOD[10:]),
}


def _captured(place: Place) -> list[tuple[str, int | None]]:
    rows = admit(place, 1).batches()
    return [(row["verdict"], row["offset"]) for row in rows if row["source"] == "gateway"]


@pytest.mark.parametrize("kind", CORRUPT)
def test_a_snapshot_that_a_broker_would_delete_is_named_and_an_older_one_serves(
    kind: str, tmp_path: Path
) -> None:
    place = seeded(tmp_path)
    put(place, log_file(5, "snapshot"), CORRUPT[kind])
    run = admit(place, 1)
    found = origin(run)
    assert found["snapshot_offset"] == 4
    assert "00000000000000000005.snapshot" in found["skipped"][0]
    assert any("00000000000000000005.snapshot" in line for line in messages(run))
    assert _captured(place) == [("duplicate", 4), ("accepted", 5)]


HARMLESS: dict[str, Callable[[Place], None]] = {
    "beyond the end of the log": lambda place: put(place, log_file(9, "snapshot"), snapshot(8, at=9)),
    "of no segment": lambda place: put(place, log_file(1, "snapshot"), snapshot(0, at=1)),
    "a name that is no offset": lambda place: put(place, "newest.snapshot", snapshot(8, at=9)),
    "being deleted": lambda place: put(place, log_file(9, "snapshot.deleted"), snapshot(8, at=9)),
    "bytes behind its entries": lambda place: put(place, log_file(5, "snapshot"), _sealed(GOOD + b"tail")),
}


@pytest.mark.parametrize("kind", HARMLESS)
def test_a_snapshot_that_a_broker_would_not_use_changes_nothing(kind: str, tmp_path: Path) -> None:
    place = seeded(tmp_path)
    HARMLESS[kind](place)
    assert _captured(place) == [("duplicate", 4), ("accepted", 5)]


def test_of_a_producer_that_is_twice_in_a_snapshot_the_last_entry_counts(tmp_path: Path) -> None:
    place = seeded(tmp_path)
    entry, other = snapshot(4, at=5)[10:], snapshot(9, at=5)[10:]
    put(place, log_file(5, "snapshot"), _sealed(GOOD[:6] + b"\0\0\0\2" + other + entry))
    run = admit(place, 1)
    assert run.state().producers["producer_id"].tolist() == [1]
    assert _captured(place) == [("duplicate", 4), ("accepted", 5)]
    place.arrive("dt=2024-05-02/orders-0/b", batch(6))
    assert admit(place, 2).state().end_offset == 7
