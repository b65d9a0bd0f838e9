"""A growing copy of a broker's log costs what is new, and gives the tables of one run over all of it."""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from spark_jobs.flow import Step
from spark_jobs.kafka.formats.control_record import ControlType
from spark_jobs.lake.chain import read_chain
from spark_jobs.lake.manifest import Manifest, ManifestEntry, read_run_manifest
from spark_jobs.lake.stores import open_source
from spark_jobs.operations.expire import key_of, objects_of
from spark_jobs.operations.rollback import roll_back
from spark_jobs.sources.inheritance import SegmentHistory, taken_segments
from spark_jobs.tables.index import INDEX_FILES
from tests.e2e.tables import by_pyiceberg, own_rows
from tests.pipeline.admitted import ORDERS, AdmittedRun, admit
from tests.pipeline.batches import batch, marker
from tests.pipeline.materialise.truth import DATA, truth_of
from tests.pipeline.runs import Place, day, place_at
from tests.s3_server import S3Server

WHOLE = "lake: lake\nsources:\n  - {name: kafka, kind: broker-log, root: logs}\n"
DATED = "lake: lake\nsources:\n  - {name: kafka, kind: broker-log, root: logs, dates: '%Y/%m/%d'}\n"


def _segment(base_offset: int) -> str:
    return f"{base_offset:020d}.log"


def _put(place: Place, files: dict[str, bytes], folder: str = "", directory: str = "one/orders-0") -> None:
    """Files of a copy of a partition's directory, written as a copy tool writes them over older ones."""
    for name, data in files.items():
        path = place.directory / "logs" / folder / directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def _batches(first: int, stop: int, leader_epoch: int = 0) -> bytes:
    return b"".join(batch(number, at=number, leader_epoch=leader_epoch) for number in range(first, stop))


def _log(end_offset: int, per_segment: int = 4) -> dict[str, bytes]:
    """A log of one batch per offset; the last segment is the active one."""
    return {
        _segment(start): _batches(start, min(start + per_segment, end_offset))
        for start in range(0, end_offset, per_segment)
    }


def _entries(run_day: AdmittedRun) -> dict[str, ManifestEntry]:
    return {entry.name: entry for entry in read_run_manifest(run_day.lake, run_day.run_id).entries}


def _inherited(run_day: AdmittedRun) -> list[str]:
    return sorted(name for name, entry in _entries(run_day).items() if entry.inherited)


def _objects(place: Place) -> int:
    return len(list(place.lake.list("objects")))


def test_closed_segments_are_listed_and_the_active_one_is_read_from_where_the_last_run_ended(
    tmp_path: Path,
) -> None:
    place = place_at(tmp_path, WHOLE)
    _put(place, _log(10))
    assert admit(place, 1).verdicts() == ["accepted"] * 10
    _put(place, _log(11))

    second = admit(place, 2)

    assert _inherited(second) == [_segment(0), _segment(4)]
    active = _entries(second)[_segment(8)]
    assert (active.inherited, active.inherited_bytes, active.next_offset) == (False, len(_batches(8, 10)), 10)
    assert (second.verdicts(), second.offsets()) == (["accepted"], [10])
    assert second.state().end_offset == 11
    indexed = second.table(Step.INDEX, INDEX_FILES.file).to_pylist()
    assert [(row["rows"], row["bytes"]) for row in indexed] == [(1, len(_batches(10, 11)))]


def test_what_only_has_another_name_or_time_is_read_for_its_digest_and_not_copied(tmp_path: Path) -> None:
    place = place_at(tmp_path, DATED)
    _put(place, _log(9), "2024/05/01")
    admit(place, 1)
    before = _objects(place)
    _put(place, _log(10), "2024/05/02")

    second = admit(place, 2)

    assert _inherited(second) == [_segment(0), _segment(4)]
    assert (second.verdicts(), second.offsets()) == (["accepted"], [9])
    assert _objects(place) == before + 1


def test_a_partition_without_news_gives_no_rows_and_keeps_its_state(tmp_path: Path) -> None:
    place = place_at(tmp_path, WHOLE)
    _put(place, _log(6))
    _put(place, _log(3), directory="one/clicks-0")
    first = admit(place, 1)
    _put(place, _log(5), directory="one/clicks-0")

    second = admit(place, 2)
    third = admit(place, 3)

    assert list(second.partitions()) == [ORDERS._replace(topic="clicks")]
    assert second.states()[ORDERS] == first.states()[ORDERS]
    assert (third.partitions(), third.states()) == ({}, second.states())
    _put(place, _log(7))
    fourth = admit(place, 4)
    assert (fourth.offsets(), fourth.state().end_offset) == ([6], 7)


def test_a_batch_that_was_torn_is_read_again_when_it_is_whole(tmp_path: Path) -> None:
    place = place_at(tmp_path, WHOLE)
    _put(place, {_segment(0): _batches(0, 3)[:-5]})
    assert admit(place, 1).verdicts() == ["accepted", "accepted", "corrupt"]
    _put(place, {_segment(0): _batches(0, 4)})

    second = admit(place, 2)

    assert (second.verdicts(), second.offsets()) == (["accepted"] * 2, [2, 3])


def test_behind_damage_a_segment_that_grows_is_read_from_the_damage_on(tmp_path: Path) -> None:
    place = place_at(tmp_path, WHOLE)
    size = len(_batches(0, 1))
    damaged = bytearray(_batches(0, 3))
    damaged[2 * size - 1] ^= 1
    _put(place, {_segment(0): bytes(damaged)})
    admit(place, 1)
    _put(place, {_segment(0): bytes(damaged) + _batches(3, 4)})

    second = admit(place, 2)

    assert _entries(second)[_segment(0)].inherited_bytes == size
    held = [row["base_offset"] for row in second.batches() if row["verdict"] == "behind_gap"]
    assert (second.state().end_offset, held) == (1, [2, 3])


def test_a_segment_with_other_bytes_is_read_again_whether_it_has_another_size_or_not(tmp_path: Path) -> None:
    place = place_at(tmp_path, WHOLE)
    _put(place, _log(9))
    admit(place, 1)
    other = b"".join(batch(number, at=number, leader_epoch=0, value=b"w") for number in range(4))
    assert len(other) == len(_batches(0, 4))
    _put(place, {**_log(9), _segment(0): other, _segment(4): _batches(4, 7)})

    second = admit(place, 2)

    assert _inherited(second) == [_segment(8)]
    assert len(second.batches()) == 4 + 3
    assert set(second.verdicts()) <= {"overlap", "divergent"}


def test_a_truncated_log_is_reported(tmp_path: Path) -> None:
    place = place_at(tmp_path, WHOLE)
    _put(place, _log(9))
    admit(place, 1)
    shutil.rmtree(tmp_path / "logs")
    _put(place, _log(6))

    second = admit(place, 2)

    messages = second.lake.read(second.key(Step.ADMIT, "messages.json")).decode()
    assert "orders-0 was staged up to offset 6" in messages
    assert second.state().end_offset == 9


def test_an_empty_active_segment_behind_inherited_ones_is_no_truncation(tmp_path: Path) -> None:
    place = place_at(tmp_path, WHOLE)
    _put(place, _log(8))
    admit(place, 1)
    _put(place, {_segment(8): b""})

    second = admit(place, 2)

    assert second.lake.stat(second.key(Step.ADMIT, "messages.json")) is None


def test_the_segment_behind_is_part_of_what_a_segment_is(tmp_path: Path) -> None:
    """One was missing in the first copy: where the one before it ends is known only now."""
    place = place_at(tmp_path, WHOLE)
    log = _log(12)
    missing = log.pop(_segment(4))
    _put(place, log)
    admit(place, 1)
    _put(place, {_segment(4): missing})

    assert _inherited(admit(place, 2)) == [_segment(8)]


def test_coordinators_logs_are_read_whole(tmp_path: Path) -> None:
    place = place_at(tmp_path, WHOLE)
    for number in (1, 2):
        _put(place, _log(6), directory="one/__transaction_state-0")
        assert _inherited(admit(place, number)) == []


def test_segments_beside_a_capture_were_not_judged_so_they_are_read_again(tmp_path: Path) -> None:
    place = place_at(
        tmp_path, WHOLE + "  - {name: gateway, kind: capture, root: capture, dates: 'dt=%Y-%m-%d'}\n"
    )
    _put(place, _log(6))
    captured = tmp_path / "capture/dt=2024-05-01/orders-0/a"
    captured.parent.mkdir(parents=True)
    captured.write_bytes(batch(0))
    admit(place, 1)

    assert _inherited(admit(place, 2)) == []


def _history(place: Place, run_id: str) -> tuple[SegmentHistory, Manifest]:
    manifest = read_run_manifest(place.lake, run_id)
    return SegmentHistory(place.settings, place.lake, taken_segments(run_id, manifest)), manifest


@pytest.mark.parametrize(("had", "has", "count"), [("A", "A", 2), ("", "A", 2), ("A", "", 2), ("A", "B", 0)])
def test_another_topic_id_is_another_log(tmp_path: Path, had: str, has: str, count: int) -> None:
    place = place_at(tmp_path, WHOLE)
    _put(place, _log(6))
    run_id = admit(place, 1).run_id
    _, manifest = _history(place, run_id)

    def of_topic(topic_id: str) -> Manifest:
        entries = (replace(entry, topic_id=topic_id) for entry in manifest.entries)
        return replace(manifest, entries=tuple(entries))

    history = SegmentHistory(place.settings, place.lake, taken_segments(run_id, of_topic(had)))
    found = history.inherit(of_topic(has), {})

    assert sum(entry.inherited for entry in found.entries) == count


def test_what_an_inherited_replica_reported_of_its_leaders_still_counts(tmp_path: Path) -> None:
    """The first replica has leader epoch 1 from offset 4 on; the other one, of epoch 0, grows beyond it."""
    place = place_at(tmp_path, WHOLE)
    _put(place, {_segment(0): _batches(0, 4) + _batches(4, 6, 1), _segment(6): _batches(6, 7, 1)})
    _put(place, {_segment(0): _batches(0, 5)}, directory="two/orders-0")
    admit(place, 1)
    _put(place, {_segment(0): _batches(0, 9)}, directory="two/orders-0")

    second = admit(place, 2)

    assert second.verdicts() == ["divergent"] * 4
    assert second.state().end_offset == 7


def test_rolled_back_and_run_again_it_is_the_same_run(tmp_path: Path) -> None:
    place = place_at(tmp_path, WHOLE)
    for number, end in ((1, 6), (2, 9)):
        _put(place, _log(end))
        last = admit(place, number, until=Step.PUBLISH)
    before = by_pyiceberg(place.settings)
    roll_back(place.settings, last.run_id)

    assert admit(place, 2, until=Step.PUBLISH).run_id == last.run_id
    assert by_pyiceberg(place.settings) == before
    assert [record["offset"] for record in before] == list(range(9))


def test_a_lake_in_a_bucket_inherits_the_same(tmp_path: Path, s3_server: S3Server) -> None:
    bucket = f"s3://{s3_server.new_bucket()}"
    there = WHOLE.replace("lake: lake", f"lake: {bucket}/lake").replace("root: logs", f"root: '{bucket}/in'")
    far = place_at(tmp_path, there + f"s3: {{endpoint_url: '{s3_server.endpoint_url}', addressing: path}}\n")
    near = place_at(tmp_path, WHOLE)
    for number, end in ((1, 9), (2, 10), (3, 10), (4, 17)):
        _put(near, _log(end))
        for name, data in _log(end).items():
            open_source(far.settings, far.settings.sources[0]).put(f"one/orders-0/{name}", data)
        here, away = admit(near, number), admit(far, number)
        assert (away.run_id, away.states()) == (here.run_id, here.states())
        assert _inherited(away) == _inherited(here)
    assert here.offsets() == list(range(10, 17))


def _without_inheritance(place: Place, number: int) -> AdmittedRun:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(SegmentHistory, "inherit", lambda _self, manifest, _prefixes: manifest)
        patched.setattr(SegmentHistory, "alike", lambda _self, _placed: [])
        return admit(place, number)


def _life(random: Random) -> list[bytes]:
    """A log of idempotent and transactional producers; one batch per offset."""
    log: list[bytes] = []
    sequences = {1: 0, 2: 0, 3: 0}
    is_open = False
    for offset in range(random.randint(20, 60)):
        kind = random.choice(("plain", "plain", "txn", "end"))
        if kind == "end" and is_open:
            control = random.choice((ControlType.COMMIT, ControlType.ABORT))
            log.append(marker(control, pid=3, at=offset, leader_epoch=0))
            is_open = False
            continue
        pid = 3 if kind == "txn" else random.choice((1, 2))
        log.append(batch(sequences[pid], pid=pid, txn=pid == 3, at=offset, leader_epoch=0))
        sequences[pid] += 1
        is_open = is_open or pid == 3
    return log


def _copies(random: Random, log: list[bytes]) -> Iterator[dict[str, dict[str, bytes]]]:
    """Copies of two replicas, later and later: segments roll, old ones go, the last batch may be torn."""
    ends, start = {"one": 0, "two": 0}, 0
    per_segment = random.randint(2, 9)
    for _ in range(4):
        start = random.choice((start, start, min(start + per_segment, *ends.values())))
        start -= start % per_segment
        ends = {replica: random.randint(max(end, start + 1), len(log)) for replica, end in ends.items()}
        copy = {}
        for replica, end in ends.items():
            data = {
                _segment(base): b"".join(log[base : min(base + per_segment, end)])
                for base in range(start, end, per_segment)
            }
            last = max(data)
            torn = random.choice((0, 0, 7)) if end < len(log) else 0
            copy[replica] = {**data, last: data[last][: len(data[last]) - torn]}
        yield copy
    yield {"one": {_segment(b): b"".join(log[b : b + per_segment]) for b in range(0, len(log), per_segment)}}


@pytest.mark.parametrize("config", [WHOLE, DATED], ids=["whole", "dated"])
@pytest.mark.parametrize("seed", range(12))
def test_runs_over_growing_copies_accept_what_runs_that_read_all_of_them_accept(
    tmp_path: Path, seed: int, config: str
) -> None:
    random = Random(seed)
    lazy = place_at(tmp_path, config)
    eager = place_at(tmp_path, config.replace("lake: lake", "lake: eager"))
    for number, copy in enumerate(_copies(random, _life(random)), start=1):
        if config == WHOLE:
            shutil.rmtree(tmp_path / "logs", ignore_errors=True)
        for replica, files in copy.items():
            folder = "" if config == WHOLE else f"{day(number):%Y/%m/%d}"
            _put(lazy, files, folder, f"{replica}/orders-0")
        found, wanted = admit(lazy, number), _without_inheritance(eager, number)
        assert _accepted(found) == _accepted(wanted)
        assert found.state().end_offset == wanted.state().end_offset
        assert found.state().leader_epochs == wanted.state().leader_epochs
    assert _open(found) == _open(wanted)


def _accepted(run_day: AdmittedRun) -> list[tuple[int, int, int]]:
    rows = run_day.batches() if ORDERS in run_day.partitions() else []
    return [(r["offset"], r["producer_id"], r["crc"]) for r in rows if r["verdict"] == "accepted"]


def _open(run_day: AdmittedRun) -> list[int]:
    first: list[int] = run_day.state().open_transactions["first_offset"].tolist()
    return first


GROWTH = (0.35, 0.6, 0.8, 1.0)


def _overwritten(place: Place, files: dict[Path, bytes], _number: int) -> None:
    for path, data in files.items():
        _put(place, {path.name: data}, directory=str(path.parent))


def _in_dated_folders(place: Place, files: dict[Path, bytes], number: int) -> None:
    for path, data in files.items():
        _put(place, {path.name: data}, f"{day(number):%Y/%m/%d}", str(path.parent))


@pytest.mark.parametrize(("config", "copy"), [(WHOLE, _overwritten), (DATED, _in_dated_folders)])
@pytest.mark.parametrize("recording", ["oracle_E", "workload_clean"])
def test_the_tables_hold_once_what_a_consumer_got(
    recording: str, config: str, copy: Callable[[Place, dict[Path, bytes], int], None], tmp_path: Path
) -> None:
    """A real broker's directory, copied while it grew: every log up to a share of its bytes."""
    root = DATA / recording / "data"
    compacted = "topics: {compacted: {cleanup_policy: compact}}"
    place = place_at(tmp_path, f"publish: read_committed\n{compacted}\n{config}")
    for number, share in enumerate(GROWTH, start=1):
        copy(place, dict(_grown(root, share)), number)
        run_day = admit(place, number, until=Step.PUBLISH)
    assert by_pyiceberg(place.settings) == truth_of(recording)
    assert _inherited(run_day)
    rows = [row for row in own_rows(place.settings, "batches") if not row["topic"].startswith("__")]
    assert sum(row["verdict"] == "overlap" for row in rows) == 0


def _grown(root: Path, share: float) -> Iterator[tuple[Path, bytes]]:
    yield from ((Path(path.name), path.read_bytes()) for path in sorted(root.iterdir()) if path.is_file())
    for directory in sorted(path for path in root.iterdir() if path.is_dir()):
        logs = sorted(directory.glob("*.log"))
        left = int(sum(path.stat().st_size for path in logs) * share)
        for path in logs:
            data = path.read_bytes()[:left]
            if data or path == logs[0]:
                yield path.relative_to(root), data
            left -= len(data)
        for path in sorted(set(directory.iterdir()) - set(logs)):
            if path.suffix != ".snapshot" or share == 1:
                yield path.relative_to(root), path.read_bytes()


def test_a_backfill_in_the_middle_leaves_later_days_what_they_can_inherit(tmp_path: Path) -> None:
    from tests.operations.backfill.lakes import backfill

    place = place_at(tmp_path, DATED)
    for number, end in ((1, 6), (2, 9), (3, 14)):
        _put(place, _log(end), f"2024/05/0{number}")
        admit(place, number, until=Step.PUBLISH)
    before = by_pyiceberg(place.settings)
    for path in (tmp_path / "logs/2024/05/02").rglob(_segment(8)):
        path.unlink()  # offset 8 comes with the third day now

    backfill(place, 2, until=Step.PUBLISH, drop_vanished=True)

    entry = read_chain(place.lake).run_of(day(3))
    assert entry is not None
    third = AdmittedRun(place, entry.run_id)
    assert third.offsets() == list(range(8, 14))
    assert by_pyiceberg(place.settings) == before


def test_what_a_run_only_inherits_it_does_not_keep_in_the_lake(tmp_path: Path) -> None:
    place = place_at(tmp_path, WHOLE)
    _put(place, _log(10))
    first = admit(place, 1)
    _put(place, _log(11))
    second = admit(place, 2)

    kept = objects_of(read_run_manifest(place.lake, second.run_id))

    closed = {key_of(_entries(first)[name]) for name in (_segment(0), _segment(4))}
    assert not kept & closed
    assert key_of(_entries(second)[_segment(8)]) in kept
