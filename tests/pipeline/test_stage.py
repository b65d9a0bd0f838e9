"""`stage`: which objects a run takes, in which order, and that it stays so."""

import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.flow import Step
from spark_jobs.kafka.formats.batch_builder import build_batch
from spark_jobs.kafka.formats.records import Record
from spark_jobs.lake.chain import read_chain, take_back
from spark_jobs.lake.errors import ObjectChanged, OutOfTurn
from spark_jobs.lake.file_store import FileStore
from spark_jobs.lake.manifest import ObjectRole, StagedObjects, read_run_manifest
from spark_jobs.lake.run_folder import EMPTY_STATE
from spark_jobs.pipeline.stage.step import fixed_inputs, open_run
from spark_jobs.sources.listing import Drift
from tests.pipeline.runs import BROKER_LOG, CAPTURE, UNDATED, Place, day, paths, place_at

SEGMENT = "00000000000000000000.log"
LARGE = build_batch(records=[Record(value=bytes(2**16))], base_timestamp=0) * 20


@pytest.fixture
def spot(tmp_path: Path) -> Place:
    place = place_at(tmp_path)
    Path(place.settings.sources[0].root).mkdir()
    return place


def test_objects_come_in_the_order_of_partition_date_and_name(spot: Place) -> None:
    for path in (
        "05-02/b-0/1",
        "05-01/b-0/9",
        "05-01/a-1/2",
        "05-01/gw2/a-1/1",
        "05-01/gw1/a-1/3",
        "05-01/a-10/0",
    ):
        spot.arrive(f"dt=2024-{path}")
    taken = [path.removeprefix("2024-") for path in paths(spot.stage(2))]
    assert taken == [
        "05-01/gw2/a-1/1",
        "05-01/a-1/2",
        "05-01/gw1/a-1/3",
        "05-01/a-10/0",
        "05-01/b-0/9",
        "05-02/b-0/1",
    ]
    assert [entry.order for entry in spot.stage(2).entries] == list(range(6))


def test_staged_bytes_are_the_sources_bytes(spot: Place) -> None:
    spot.arrive("dt=2024-05-01/orders-0/1", b"one")
    spot.arrive("dt=2024-05-01/orders-0/2", bytes(10_000_000))
    manifest, staged = spot.stage(1), StagedObjects(spot.settings)
    shutil.rmtree(spot.settings.sources[0].root)
    assert [staged.read(entry) for entry in manifest.entries] == [b"one", bytes(10_000_000)]
    assert staged.read_range(manifest.entries[0], 1, 1) == b"n"
    assert str(staged.local_path(manifest.entries[0])).startswith(spot.lake.url)


def test_equal_bytes_are_kept_once_but_named_each_time(spot: Place) -> None:
    for name in ("1", "2", "3"):
        spot.arrive(f"dt=2024-05-01/orders-0/{name}", b"same")
    assert len(spot.stage(1).entries) == 3
    assert len(list(spot.lake.list("objects"))) == 1


def test_staging_again_gives_the_same_manifest_whatever_arrived_meanwhile(spot: Place) -> None:
    spot.arrive("dt=2024-05-01/orders-0/1")
    first = spot.stage(1)
    spot.arrive("dt=2024-05-01/orders-0/2")
    assert spot.stage(1) == first


def test_a_run_that_is_not_final_can_be_listed_anew(spot: Place) -> None:
    spot.arrive("dt=2024-05-01/orders-0/1")
    spot.stage(1)
    spot.arrive("dt=2024-05-01/orders-0/2")
    assert paths(spot.stage(1, restage=True)) == ["2024-05-01/orders-0/1", "2024-05-01/orders-0/2"]
    assert len(spot.stage(1).entries) == 2


def test_a_final_run_keeps_its_manifest_even_without_its_source(spot: Place) -> None:
    spot.arrive("dt=2024-05-01/orders-0/1")
    manifest = spot.finish(1)
    shutil.rmtree(spot.settings.sources[0].root)
    assert spot.stage(1) == manifest


def test_a_late_object_belongs_to_the_next_run(spot: Place) -> None:
    spot.arrive("dt=2024-05-01/orders-0/1")
    spot.finish(1)
    spot.arrive("dt=2024-05-01/orders-0/late")
    spot.arrive("dt=2024-05-02/orders-0/1")
    assert paths(spot.finish(2)) == ["2024-05-01/orders-0/late", "2024-05-02/orders-0/1"]
    assert paths(spot.finish(3)) == []


def test_an_object_of_a_later_date_waits(spot: Place) -> None:
    spot.arrive("dt=2024-05-02/orders-0/1")
    assert paths(spot.finish(1)) == []
    assert paths(spot.finish(2)) == ["2024-05-02/orders-0/1"]


def test_without_dates_a_run_takes_whatever_no_run_has_taken(tmp_path: Path) -> None:
    spot = place_at(tmp_path, UNDATED)
    spot.arrive("orders-0/1")
    assert paths(spot.finish(1)) == ["orders-0/1"]
    spot.arrive("orders-0/0")
    assert paths(spot.finish(2)) == ["orders-0/0"]


def test_a_capture_object_rewritten_under_its_old_name_is_taken_again(tmp_path: Path) -> None:
    spot = place_at(tmp_path, UNDATED)
    spot.arrive("orders-0/1", b"old")
    spot.arrive("orders-0/2", b"stays")
    assert len(spot.finish(1).entries) == 2
    spot.arrive("orders-0/1", b"new bytes")
    (entry,) = spot.finish(2).entries
    assert (entry.path, entry.seen) == ("orders-0/1", False)


def test_a_touched_object_with_the_same_bytes_is_not_taken_again(tmp_path: Path) -> None:
    spot = place_at(tmp_path, UNDATED)
    file = spot.arrive("orders-0/1")
    spot.finish(1)
    os.utime(file, (1, 1))
    assert spot.finish(2).entries == ()


def test_looking_back_is_bounded_by_configuration(tmp_path: Path) -> None:
    spot = place_at(tmp_path, CAPTURE + "    lookback_days: 1\n")
    for number in (1, 2, 3):
        spot.arrive(f"dt=2024-05-0{number}/orders-0/1")
    assert paths(spot.stage(3)) == ["2024-05-02/orders-0/1", "2024-05-03/orders-0/1"]


def test_immutable_objects_are_referenced_and_a_later_change_is_noticed(tmp_path: Path) -> None:
    spot = place_at(tmp_path, CAPTURE + "    immutable: true\n")
    file = spot.arrive("dt=2024-05-01/orders-0/1", b"bytes")
    (entry,) = spot.stage(1).entries
    staged = StagedObjects(spot.settings)
    assert (entry.referenced, list(spot.lake.list("objects"))) == (True, [])
    assert (staged.read(entry), staged.local_path(entry)) == (b"bytes", file)
    file.write_bytes(b"other")
    with pytest.raises(ObjectChanged):
        staged.read(entry)


def test_a_large_captured_file_is_identified_by_its_headers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = place_at(tmp_path, CAPTURE + "    immutable: true\n")
    monkeypatch.setattr(FileStore, "chunks", None)  # nothing is read whole
    file = place.arrive("dt=2024-05-01/orders-0/a", LARGE)
    (entry,) = place.finish(1).entries
    assert (entry.sha256, entry.checksum.partition(":")[0]) == ("", "headers")
    file.unlink()
    place.arrive("dt=2024-05-01/orders-0/a", LARGE)  # moved or restored: another inode, another time
    assert place.finish(2).entries == ()


def test_a_repaired_file_is_taken_by_a_backfill_and_by_no_later_run(tmp_path: Path) -> None:
    place = place_at(tmp_path, CAPTURE + "    immutable: true\n")
    damaged = bytearray(LARGE)
    damaged[-1] ^= 1
    place.arrive("dt=2024-05-01/orders-0/a", bytes(damaged))
    before = place.finish(1)
    place.arrive("dt=2024-05-01/orders-0/a", LARGE)
    assert place.finish(2).entries == ()
    again = place.stage(1, backfill=True)
    assert again.entries[0].checksum == before.entries[0].checksum
    assert again.digest != before.digest


def test_what_an_earlier_version_knows_by_its_sha256_is_not_taken_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = place_at(tmp_path, CAPTURE + "    immutable: true\n")
    file = place.arrive("dt=2024-05-01/orders-0/a", LARGE)
    with monkeypatch.context() as patch:
        patch.setattr(FileStore, "headers_checksum", FileStore.checksum)
        assert place.finish(1).entries[0].sha256
    file.touch()
    assert place.finish(2).entries == ()


def test_copied_or_referenced_a_run_has_the_same_digest(tmp_path: Path) -> None:
    copied, referenced = place_at(tmp_path / "a"), place_at(tmp_path / "b", CAPTURE + "    immutable: true\n")
    for place in (copied, referenced):
        place.arrive("dt=2024-05-01/orders-0/1", b"bytes")
    assert copied.stage(1).digest == referenced.stage(1).digest


def test_a_log_directory_is_taken_whole_every_run_and_knows_what_it_has_seen(tmp_path: Path) -> None:
    spot = place_at(tmp_path, BROKER_LOG)
    spot.arrive(f"orders-0/{SEGMENT}", b"closed")
    spot.arrive("orders-0/00000000000000000007.log", b"growing")
    spot.arrive("orders-0/00000000000000000007.snapshot", b"snapshot")
    spot.arrive("orders-0/00000000000000000007.index", b"derived")
    spot.arrive("replication-offset-checkpoint", b"0\n0\n")
    assert [entry.seen for entry in spot.finish(1).entries] == [False] * 4
    spot.arrive("orders-0/00000000000000000007.log", b"growing, grown")
    found = {entry.name: (entry.role, entry.seen) for entry in spot.finish(2).entries}
    assert found == {
        "replication-offset-checkpoint": (ObjectRole.LOG_DIRECTORY, True),
        SEGMENT: (ObjectRole.LOG, True),
        "00000000000000000007.log": (ObjectRole.LOG, False),
        "00000000000000000007.snapshot": (ObjectRole.SNAPSHOT, True),
    }
    assert len(list(spot.lake.list("objects"))) == 5


def test_a_backfill_takes_what_its_run_had_and_what_came_late(spot: Place) -> None:
    spot.arrive("dt=2024-05-01/orders-0/1")
    spot.finish(1)
    spot.arrive("dt=2024-05-01/orders-0/late")
    assert paths(spot.finish(2)) == ["2024-05-01/orders-0/late"]
    assert paths(spot.finish(1, backfill=True)) == ["2024-05-01/orders-0/1", "2024-05-01/orders-0/late"]
    assert paths(spot.finish(2, backfill=True)) == []


def test_a_run_before_final_ones_needs_a_backfill(spot: Place) -> None:
    spot.finish(3)
    with pytest.raises(OutOfTurn, match="backfill"):
        spot.stage(2)
    spot.arrive("dt=2024-05-02/orders-0/1")
    assert len(spot.stage(2, backfill=True).entries) == 1


def test_an_opened_run_has_staged_and_is_found_again(spot: Place) -> None:
    spot.arrive("dt=2024-05-01/orders-0/1", b"12345")
    manifest, chain = spot.stage(1), read_chain(spot.lake)
    run = open_run(spot.settings, manifest, lake=spot.lake, chain=chain)
    before = {found.key: found.version for found in spot.lake.list("runs")}
    again = open_run(spot.settings, manifest, lake=spot.lake, chain=chain)
    done = again.done(Step.STAGE)
    assert done is not None
    assert (again, done.counts) == (run, {"objects": 1, "bytes": 5, "set_aside": 0})
    assert (run.inputs.state_in, read_run_manifest(spot.lake, run.run_id)) == (EMPTY_STATE, manifest)
    assert {found.key: found.version for found in spot.lake.list("runs")} == before


def test_a_final_run_under_other_settings_needs_a_backfill(spot: Place) -> None:
    spot.finish(1)
    changed = place_at(spot.directory, CAPTURE + "kafka: {transaction_version: TV1}\n")
    chain = read_chain(changed.lake)
    with pytest.raises(
        OutOfTurn, match="with other settings or from another state; a backfill can replace it"
    ):
        open_run(changed.settings, changed.stage(1), lake=changed.lake, chain=chain)
    open_run(changed.settings, changed.stage(1), lake=changed.lake, chain=chain, backfill=True)


def test_a_manifest_fixed_under_other_sources_is_another_one(spot: Place) -> None:
    spot.arrive("dt=2024-05-01/orders-0/1")
    spot.arrive("dt=2024-05-01/clicks-0/1")
    assert len(spot.stage(1).entries) == 2
    narrower = place_at(spot.directory, CAPTURE + "    topics: {include: [orders]}\n")
    assert paths(narrower.stage(1)) == ["2024-05-01/orders-0/1"]


def test_two_sources_feed_one_partition_in_the_order_of_names(tmp_path: Path) -> None:
    second = "  - {name: archive, kind: capture, root: other, dates: dt=%Y-%m-%d}\n"
    spot = place_at(tmp_path, CAPTURE + second)
    spot.arrive("dt=2024-05-01/orders-0/2")
    other = tmp_path / "other/dt=2024-05-01/orders-0"
    other.mkdir(parents=True)
    for name in ("1", "3"):
        (other / name).write_bytes(name.encode())
    assert [(entry.name, entry.source) for entry in spot.stage(1).entries] == [
        ("1", "archive"),
        ("2", "gateway"),
        ("3", "archive"),
    ]


ARRIVALS = st.lists(st.tuples(st.integers(1, 4), st.integers(1, 4), st.integers(0, 1)), max_size=12)
"""Objects as (the date they are of, the previous run which they arrive, partition)."""


@settings(max_examples=25)
@given(ARRIVALS)
def test_every_object_is_taken_by_exactly_one_run(arrivals: list[tuple[int, int, int]]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        place = place_at(Path(directory))
        Path(place.settings.sources[0].root).mkdir()
        taken: list[tuple[str, int]] = []
        for number in range(1, 5):
            for name, (own, arrival, partition) in enumerate(arrivals):
                if arrival == number:
                    place.arrive(f"dt={day(own)}/orders-{partition}/{name:03d}")
            taken += [(entry.name, number) for entry in place.finish(number).entries]
    expected = [(f"{name:03d}", max(own, arrival)) for name, (own, arrival, _) in enumerate(arrivals)]
    assert sorted(taken) == sorted(expected)


def test_a_final_run_is_not_restaged_but_backfilled(spot: Place) -> None:
    spot.arrive("dt=2024-05-01/orders-0/1")
    spot.finish(1)
    with pytest.raises(OutOfTurn, match="onceover backfill --from 2024-05-01 --to 2024-05-01"):
        spot.stage(1, restage=True)


def test_a_run_taken_back_finds_its_inputs_fixed_and_can_be_restaged(spot: Place) -> None:
    spot.arrive("dt=2024-05-01/orders-0/1")
    run = open_run(spot.settings, spot.finish(1), lake=spot.lake, chain=read_chain(spot.lake))
    take_back(spot.lake, read_chain(spot.lake), run.run_id)
    spot.arrive("dt=2024-05-01/orders-0/2")
    found = fixed_inputs(spot.settings, day(1), lake=spot.lake, chain=read_chain(spot.lake))
    assert found is not None
    assert (found.objects, found.drift) == (1, Drift(new=1))
    assert "--restage" in found.sentence
    assert paths(spot.stage(1)) == ["2024-05-01/orders-0/1"]
    assert paths(spot.stage(1, restage=True)) == ["2024-05-01/orders-0/1", "2024-05-01/orders-0/2"]


def test_what_earlier_runs_took_is_not_new(spot: Place) -> None:
    spot.arrive("dt=2024-05-01/orders-0/1")
    spot.finish(1)
    spot.stage(2)
    found = fixed_inputs(spot.settings, day(2), lake=spot.lake, chain=read_chain(spot.lake))
    assert found is not None
    assert not found.drift
