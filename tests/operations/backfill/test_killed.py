"""A backfill can be killed at any point and repeated: the same bytes, nothing twice."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from spark_jobs.flow import Step
from spark_jobs.lake.iceberg.catalog import open_catalog
from spark_jobs.operations.relocate import relocate
from tests.operations.backfill.lakes import backfill, chain_of, run_day, tables
from tests.pipeline.batches import batch
from tests.pipeline.runs import CAPTURE, Place, place_at

DEATHS = (
    ("^staging/", 1, "before"),
    ("^staging/", 1, "after"),
    ("^runs/2024-05-02.*/inputs.json", 1, "after"),
    ("^runs/2024-05-02.*/index/_done.json", 1, "before"),
    ("^runs/2024-05-02.*/admit/segments", 1, "after"),
    ("^runs/2024-05-02.*/admit/_done.json", 1, "after"),
    ("^chain/", 1, "before"),
    ("^chain/", 1, "after"),
    ("^runs/2024-05-03.*/admit/state", 1, "before"),
    ("^chain/", 2, "after"),
)


CONFIG = "onceover.yaml"
SHARED = CAPTURE.replace("root: capture", "root: ../capture")


def _lake(directory: Path, until: Step, runs: int) -> Place:
    """Some runs, and an object that came late to the second; neighbours share their source."""
    directory.mkdir(parents=True)
    (directory / CONFIG).write_text(SHARED)
    place = place_at(directory, SHARED)
    for number in range(1, runs + 1):
        place.arrive(f"dt=2024-05-0{number}/orders-0/a", batch(number))
        place.arrive(f"dt=2024-05-0{number}/clicks-0/a", batch(number, pid=7))
        run_day(place, number, until)
    place.arrive("dt=2024-05-02/orders-0/late", batch(0, pid=9))
    return place


def _die(*arguments: str, lines: str = "") -> str:
    command = [sys.executable, "-m", "tests.operations.backfill.backfill_and_die", *arguments]
    return subprocess.run(command, input=lines, capture_output=True, text=True, check=True).stdout


def _kept(place: Place) -> dict[str, bytes]:
    """What a lake holds for ever."""
    kept = [found.key for name in ("runs", "state", "chain", "objects") for found in place.lake.list(name)]
    return {key: place.lake.read(key) for key in kept}


@pytest.fixture(scope="module")
def lakes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake for each point at which a backfill was killed and repeated, and one without a kill."""
    directory = tmp_path_factory.mktemp("deaths")
    original = _lake(directory / "original", Step.ADMIT, 3).directory
    names = ["undisturbed", *(f"lake-{number}" for number in range(len(DEATHS)))]
    files = {name: shutil.copytree(original, directory / name) / CONFIG for name in names}
    for name in names:
        relocate(place_at(directory / name, SHARED).settings)
    lines = [f"{files['undisturbed']} (?!) 0 -"]
    for number, (pattern, count, moment) in enumerate(DEATHS):
        file = files[f"lake-{number}"]
        lines += [f"{file} {pattern} {count} {moment}", f"{file} (?!) 0 -"]
    assert _die("lake", lines="\n".join(lines)).split() == ["-9", "0"] * len(DEATHS)
    return directory


@pytest.mark.parametrize("number", range(len(DEATHS)), ids=lambda n: f"{DEATHS[n][2]} {DEATHS[n][0]}")
def test_killed_at_a_write_and_repeated_it_leaves_the_bytes_of_an_undisturbed_one(
    lakes: Path, number: int
) -> None:
    killed, undisturbed = (place_at(lakes / name, SHARED) for name in (f"lake-{number}", "undisturbed"))
    assert _kept(killed) == _kept(undisturbed)
    assert len(chain_of(killed).entries) == 5


def test_killed_at_tables_it_ends_with_the_tables_of_an_undisturbed_one(tmp_path: Path) -> None:
    names = ("killed", "undisturbed")
    killed, undisturbed = (_lake(tmp_path / name / name, Step.PUBLISH, 2) for name in names)
    backfill(undisturbed, 2, until=Step.PUBLISH)
    with open_catalog(undisturbed.settings) as catalog:
        found = [name for namespace in catalog.list_namespaces() for name in catalog.list_tables(namespace)]
        snapshots = {name: len(catalog.load_table(name).snapshots()) for name in found}
    assert int(_die("catalog", str(killed.directory / CONFIG))) == 3
    assert tables(killed, left_out=()) == tables(undisturbed, left_out=())
    with open_catalog(killed.settings) as catalog:
        assert {name: len(catalog.load_table(name).snapshots()) for name in found} == snapshots
