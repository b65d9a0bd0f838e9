"""What is taken of a Fetch reply: whole batches in order, and nothing that a broker would not send."""

from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest

from spark_jobs.config.settings import Settings
from spark_jobs.kafka.formats.batch_builder import build_batch
from spark_jobs.kafka.formats.records import Record
from spark_jobs.lake.object_store import ObjectStore
from spark_jobs.lake.stores import open_lake
from spark_jobs.sources.cluster import replies
from spark_jobs.sources.cluster.cut import UNKNOWN, PartitionCut
from spark_jobs.sources.cluster.replies import (
    NO_RISE,
    ReplyBatches,
    UntrustedReply,
    open_writer,
    take_batches,
)


def batch(base_offset: int, count: int = 2, epoch: int = 3) -> bytes:
    """A batch with the offset and leader epoch that a broker assigned."""
    records = [Record(offset_delta=number, value=b"value %d" % number) for number in range(count)]
    raw = bytearray(build_batch(records=records, base_timestamp=0))
    raw[0:8] = base_offset.to_bytes(8, "big")
    raw[12:16] = epoch.to_bytes(4, "big")
    return bytes(raw)


def take(
    data: bytes, position: int = 10, *, end: int = 100, **more: bool | int | tuple[int, int]
) -> ReplyBatches:
    given = {"begins_inside": False, "epochs": (3, UNKNOWN), **more}
    return take_batches(data, position=position, end=end, **given)  # type: ignore[arg-type]


def test_whole_batches_are_taken_byte_for_byte() -> None:
    data = batch(10) + batch(12)
    taken = take(data)
    assert bytes(taken.data) == data
    assert (taken.first_offset, taken.next_offset, taken.hole) == (10, 14, UNKNOWN)


@pytest.mark.parametrize("cut", [1, 30, 60])
def test_a_batch_that_the_reply_cuts_off_is_left_out(cut: int) -> None:
    taken = take(batch(10) + batch(12)[:-cut])
    assert bytes(taken.data) == batch(10)
    assert taken.next_offset == 12


def test_batches_from_the_end_of_the_cut_on_are_left_out() -> None:
    taken = take(batch(10) + batch(12), end=12)
    assert (bytes(taken.data), taken.next_offset) == (batch(10), 12)


def test_a_reply_that_begins_behind_the_cut_ends_it() -> None:
    assert take(batch(12), end=12, dense=False).next_offset == 12


def test_a_log_may_start_inside_its_first_batch() -> None:
    taken = take(batch(9) + batch(11), begins_inside=True)
    assert (taken.first_offset, taken.next_offset) == (9, 13)


def test_a_higher_leader_epoch_needs_a_second_batch_or_a_second_reply() -> None:
    data = batch(10) + batch(12, epoch=4)
    taken = take(data)
    assert (bytes(taken.data), taken.next_offset, taken.rise) == (batch(10), 12, (12, 4))
    assert bytes(take(data, confirmed_rise=(12, 4)).data) == data
    assert take(data, confirmed_rise=(12, 5)).next_offset == 12
    assert take(data + batch(14, epoch=4)).next_offset == 16
    first = take(batch(10, epoch=4), end=10)
    assert (first.next_offset, first.rise) == (10, NO_RISE)
    first = take(batch(10, epoch=4), epochs=(UNKNOWN, UNKNOWN))
    assert (first.next_offset, first.rise) == (10, (10, 4))


@pytest.mark.parametrize("bit", range(32))
@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_changed_bit_of_a_leader_epoch_is_never_written(place: int, bit: int) -> None:
    """The leader's own epoch is not known here, as in clusters before Kafka 2.2."""
    good = [batch(10 + 2 * number, epoch=5) for number in range(3)]
    changed = bytearray(good[place])
    changed[15 - bit // 8] ^= 1 << bit % 8
    reply = b"".join((*good[:place], bytes(changed), *good[place + 1 :]))
    for before in (5, UNKNOWN):
        try:
            taken = take(reply, epochs=(before, UNKNOWN))
        except UntrustedReply:
            continue
        assert bytes(taken.data) == b"".join(good)[: len(taken.data)]
        assert taken.next_offset <= 10 + 2 * place


def test_an_empty_reply_brings_nothing() -> None:
    taken = take(b"")
    assert (taken.rows.rows, taken.next_offset) == (0, 10)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (batch(10)[:-1] + b"\xff", "BAD_CRC"),
        (batch(9) + batch(11), "overlaps with one that was fetched before"),
        (batch(10) + batch(11), "overlap"),
        (batch(12) + batch(10), "not in order"),
        (batch(10, epoch=5), "leader epochs 5 to 5"),
        (batch(10, epoch=1), "leader epochs 1 to 1"),
    ],
)
def test_what_no_broker_sends_is_refused(data: bytes, problem: str) -> None:
    with pytest.raises(UntrustedReply, match=problem):
        take(data, epochs=(2, 4))


def test_a_hole_has_to_be_confirmed_by_a_second_reply() -> None:
    data = batch(10) + batch(14)
    first = take(data)
    assert (bytes(first.data), first.next_offset, first.hole) == (batch(10), 12, 12)
    second = take(batch(14), 12, confirmed_hole=12)
    assert (second.first_offset, second.next_offset, second.hole) == (14, 16, UNKNOWN)


def test_a_hole_at_the_beginning_takes_nothing_until_it_is_confirmed() -> None:
    taken = take(batch(14))
    assert (taken.rows.rows, taken.next_offset, taken.hole) == (0, 10, 10)


def test_a_hole_at_the_end_of_the_cut_has_to_be_confirmed_too() -> None:
    first = take(batch(14), 12, end=14)
    assert (first.rows.rows, first.next_offset, first.hole) == (0, 12, 12)
    assert take(batch(14), 12, end=14, confirmed_hole=12).next_offset == 14


def lake_at(directory: Path) -> ObjectStore:
    source = {"name": "live", "kind": "cluster", "bootstrap": "127.0.0.1:1"}
    return open_lake(Settings.model_validate({"lake": str(directory / "lake"), "sources": [source]}))


def cut_until(end: int) -> PartitionCut:
    return PartitionCut(
        topic="orders",
        partition=0,
        topic_id="",
        start=10,
        end=end,
        log_start_offset=0,
        last_stable_offset=0,
        leader_epoch=3,
        is_compacted=True,
    )


def write(lake: ObjectStore, cut: PartitionCut, *replies: bytes) -> dict[str, bytes]:
    """The segments of a fetch with these replies."""
    with open_writer(lake, "live", date(2026, 3, 1), cut) as writer:
        for reply in replies:
            writer.write(take(reply, writer.position, end=cut.end, dense=False))
        found = writer.finish()
    assert found.next_offset == cut.end
    return {name: lake.read(f"sources/live/2026-03-01/orders-0/{name}") for name in found.segments}


def test_a_segment_has_offsets_of_31_bits_only(tmp_path: Path) -> None:
    far = 10 + 2**31
    found = write(lake_at(tmp_path), cut_until(far + 4), batch(10) + batch(12) + batch(far), batch(far + 2))
    assert found == {
        f"{10:020d}.log": batch(10) + batch(12),
        f"{far:020d}.log": batch(far) + batch(far + 2),
    }


def test_segments_do_not_depend_on_how_replies_divide_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches = [batch(10 + 2 * number, epoch=3) for number in range(12)]
    monkeypatch.setattr(replies, "SEGMENT_BYTES", 3 * len(batches[0]) + 5)
    found = [
        write(lake_at(tmp_path / str(size)), cut_until(34), *map(b"".join, batched(batches, size)))
        for size in (1, 2, 3, 5, 12)
    ]
    assert [len(data) for data in found[0].values()] == [3 * len(batches[0])] * 4
    assert all(each == found[0] for each in found)


def batched(batches: list[bytes], size: int) -> Iterator[list[bytes]]:
    yield from (batches[start : start + size] for start in range(0, len(batches), size))


def test_holes_of_a_compacted_topic_are_no_news() -> None:
    data = batch(10) + batch(14) + batch(20)
    taken = take(data, dense=False)
    assert (bytes(taken.data), taken.next_offset, taken.hole) == (data, 22, UNKNOWN)
