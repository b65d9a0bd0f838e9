"""`stage` when the source misbehaves, and when it is killed itself."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from spark_jobs.lake.file_store import FileStore
from spark_jobs.lake.layout import staging_key
from spark_jobs.lake.manifest import SetAside, StagedObjects
from spark_jobs.pipeline.stage.worker import Notes
from spark_jobs.sources import source as source_module
from tests.pipeline.runs import CAPTURE, DisturbedStore, Place, day, paths, place_at

VICTIM = "dt=2024-05-01/orders-0/2"
OTHERS = ["2024-05-01/orders-0/1", "2024-05-01/orders-0/3"]
Disturb = Callable[[Callable[[Path], None]], DisturbedStore]


@pytest.fixture
def spot(tmp_path: Path) -> Place:
    place = place_at(tmp_path)
    for name in ("1", "2", "3"):
        place.arrive(f"dt=2024-05-01/orders-0/{name}", name.encode() * 100)
    return place


@pytest.fixture
def disturb(spot: Place, monkeypatch: pytest.MonkeyPatch) -> Disturb:
    """Lets something happen to an object after it was listed, right before it is read."""

    def install(before_read: Callable[[Path], None]) -> DisturbedStore:
        store = DisturbedStore(spot.settings.sources[0].root, before_read)
        monkeypatch.setattr(source_module, "open_source", lambda settings, source: store)
        return store

    return install


def _grow(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"more")


def _rewrite(path: Path) -> None:
    os.utime(path, ns=(1, 1))


def _truncate(path: Path) -> None:
    os.truncate(path, 50)


def _replace(path: Path) -> None:
    other = path.with_name(".other")
    other.write_bytes(path.read_bytes())
    other.replace(path)


@pytest.mark.parametrize(
    ("fault", "reason", "words"),
    [
        (Path.unlink, SetAside.VANISHED, "there is no such file"),
        (_grow, SetAside.CHANGED, "changed while it was read"),
        (_rewrite, SetAside.CHANGED, "changed while it was read"),
        (_truncate, SetAside.CHANGED, "changed while it was read"),
        (_replace, SetAside.CHANGED, "changed while it was read"),
    ],
    ids=["vanished", "grown", "rewritten", "truncated", "replaced"],
)
def test_an_object_that_does_not_stay_is_set_aside_and_the_rest_continues(
    spot: Place, disturb: Disturb, fault: Callable[[Path], None], reason: SetAside, words: str
) -> None:
    disturb(lambda path: fault(path) if path.name == "2" else None)
    manifest = spot.stage(1)
    (problem,) = manifest.problems
    assert paths(manifest) == OTHERS
    assert (problem.source, problem.path, problem.reason) == ("gateway", VICTIM, reason)
    assert problem.detail.startswith(f"gateway: {VICTIM}: set aside:")
    assert words in problem.detail


def test_an_object_that_was_set_aside_comes_in_with_the_next_run(spot: Place, disturb: Disturb) -> None:
    disturb(lambda path: _grow(path) if path.name == "2" else None)
    spot.finish(1)
    disturb(lambda path: None)
    assert paths(spot.finish(2)) == ["2024-05-01/orders-0/2"]


def test_hostile_names_are_set_aside_and_long_or_foreign_ones_are_taken(tmp_path: Path) -> None:
    spot = place_at(tmp_path)
    fine = ["n" * 255, "Заказ 注文", "a..b", "a\\b", "%2e%2e", "'; drop table", "<script>", "-rf"]
    for name in fine:
        spot.arrive(f"dt=2024-05-01/orders-0/{name}")
    hostile = ["a\nb", "\x1b[2Jwiped", "bad\udcff"]
    for name in hostile:
        spot.arrive(f"dt=2024-05-01/orders-0/{name}", b"x")
    os.mkfifo(Path(spot.settings.sources[0].root, "dt=2024-05-01/orders-0/fifo"))
    Path(spot.settings.sources[0].root, "dt=2024-05-01/orders-0/link").symlink_to("/etc/passwd")
    manifest = spot.stage(1)
    assert sorted(entry.name for entry in manifest.entries) == sorted(fine)
    found = sorted((problem.reason, problem.path.rpartition("/")[2]) for problem in manifest.problems)
    unsafe = [(SetAside.UNSAFE_NAME, name) for name in hostile]
    assert found == sorted([*unsafe, (SetAside.NOT_A_FILE, "fifo"), (SetAside.NOT_A_FILE, "link")])
    assert all(problem.detail.isprintable() for problem in manifest.problems)
    assert spot.stage(1) == manifest


def test_an_interrupted_staging_continues_where_it_stopped(spot: Place, disturb: Disturb) -> None:
    """The third object stops the first attempt; the first two are not read again."""
    single = place_at(spot.directory, CAPTURE + "limits: {stage_threads: 1}\n")

    def stop(path: Path) -> None:
        if path.name == "3":
            raise KeyboardInterrupt

    disturb(stop)
    with pytest.raises(KeyboardInterrupt):
        single.stage(1)
    store = disturb(lambda path: None)
    manifest = single.stage(1)
    assert [Path(key).name for key in store.read_keys] == ["3"]
    assert len(manifest.entries) == 3
    assert list(single.lake.list(staging_key(day(1), "read"))) == []


def test_what_an_attempt_noted_that_ended_behind_its_manifest_is_cleared_by_the_next(spot: Place) -> None:
    spot.stage(1)
    notes = Notes(spot.lake, day(1))
    notes.add("left over", "0" * 64, 1)
    notes.write()
    spot.stage(1)
    assert list(spot.lake.list(staging_key(day(1), "read"))) == []


def test_a_copy_that_was_lost_meanwhile_is_made_again(spot: Place, disturb: Disturb) -> None:
    disturb(lambda path: None)
    lost = spot.stage(1).entries[0]
    staged = StagedObjects(spot.settings).locate(lost)
    staged.store.delete(staged.key)
    spot.stage(1, restage=True)
    assert StagedObjects(spot.settings).read(lost) == b"1" * 100


def test_a_killed_staging_and_its_repetition_give_the_bytes_of_an_undisturbed_one(tmp_path: Path) -> None:
    place = place_at(tmp_path)
    for number in range(40):
        place.arrive(f"dt=2024-05-01/orders-{number % 3}/{number:03d}", bytes([number]) * 50_000)
    undisturbed = place_at(tmp_path, CAPTURE.replace("lake: lake", "lake: undisturbed"))
    undisturbed.stage(1)
    code = (
        "import os, signal, sys; from pathlib import Path;"
        "from spark_jobs.pipeline.stage.worker import Fetcher; from tests.pipeline.runs import place_at;"
        "left = iter(range(int(sys.argv[2]))); whole = Fetcher.fetch\n"
        "def fetch(self, wanted, origin):\n"
        "    if next(left, None) is None: os.kill(os.getpid(), signal.SIGKILL)\n"
        "    return whole(self, wanted, origin)\n"
        "Fetcher.fetch = fetch; place_at(Path(sys.argv[1])).stage(1)"
    )
    for objects in (5, 25):
        killed = subprocess.run([sys.executable, "-c", code, str(tmp_path), str(objects)], check=False)
        assert killed.returncode == -9
    place.stage(1)
    assert _content(place) == _content(undisturbed)


def test_a_device_that_is_full_stops_the_run_and_the_next_attempt_continues(tmp_path: Path) -> None:
    place = place_at(tmp_path)
    place.arrive("dt=2024-05-01/orders-0/1", bytes(200_000))
    code = (
        "import resource, signal, sys; from pathlib import Path;"
        "from tests.pipeline.runs import place_at;"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000));"
        "place_at(Path(sys.argv[1])).stage(1)"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    full = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "StoreFull" in full.stderr
    assert list(FileStore(place.lake.url).scratch().iterdir()) == []
    assert len(place.stage(1).entries) == 1


def _content(place: Place) -> dict[str, bytes]:
    """Everything that a staging leaves, by key; a fixed manifest is named after its lake's circumstances."""
    return {found.key: place.lake.read(found.key) for found in place.lake.list()}
