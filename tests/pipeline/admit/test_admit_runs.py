"""Runs cut anywhere, interrupted anywhere, and run twice at once: always the same bytes."""

import subprocess
import sys
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.flow import Step
from spark_jobs.kafka.formats.control_record import ControlType
from spark_jobs.kafka.producers.verdict import BatchRow
from spark_jobs.kafka.topic_partition import TopicPartition
from spark_jobs.lake.chain import read_chain
from spark_jobs.lake.errors import LakeBusy
from tests.kernels.histories import histories
from tests.pipeline.admitted import AdmittedRun, admit
from tests.pipeline.batches import batch, batch_of, marker
from tests.pipeline.runs import CAPTURE, Place, place_at

MARKERS = CAPTURE + "    markers: true\n"
EVENING, MORNING = date(2023, 11, 14), date(2023, 11, 15)
"""The histories were written shortly before midnight."""
PARTITIONS = [TopicPartition("orders", 0), TopicPartition("payments", 0)]


def _arrive(place: Place, objects: Sequence[bytes], cut: int) -> None:
    """Objects up to `cut` in the evening, the others in the morning; every third of another topic."""
    for number, data in enumerate(objects):
        day = EVENING if number < cut else MORNING
        topic = "payments" if number % 3 == 2 else "orders"
        place.arrive(f"dt={day}/{topic}-0/{number:04d}", data)


def _reported(runs: Sequence[AdmittedRun], partition: TopicPartition) -> list[tuple[object, ...]]:
    names = (
        "base_sequence",
        "producer_id",
        "verdict",
        "offset",
        "expected_sequence",
        "txn_first_offset",
        "reason",
    )
    return [
        tuple(row[name] for name in names)
        for each_run in runs
        if partition in each_run.partitions()
        for row in each_run.batches(partition)
    ]


def _log(runs: Sequence[AdmittedRun], partition: TopicPartition) -> bytes:
    files = [each_run.log(partition) for each_run in runs]
    return b"".join(log[name] for log in files for name in sorted(log) if name.endswith(".log"))


def _leaves_no_time(row: BatchRow) -> bool:
    """A control batch that ends nothing: its producer has no time, and the next run forgets it."""
    return row.header.is_control and row.marker is None


@settings(max_examples=12)
@given(histories(), st.integers(0, 40), st.integers(1, 3))
def test_a_run_cut_in_two_gives_the_verdicts_the_log_and_the_state_of_one(
    rows: list[BatchRow], cut: int, together: int
) -> None:
    rows = [row for row in rows if not _leaves_no_time(row)]
    objects = [
        b"".join(map(batch_of, rows[start : start + together])) for start in range(0, len(rows), together)
    ]
    with TemporaryDirectory() as directory:
        whole, parts = (place_at(Path(directory, name), MARKERS) for name in ("whole", "parts"))
        for place in (whole, parts):
            Path(place.settings.sources[0].root).mkdir(parents=True)
        _arrive(whole, objects, len(objects))
        _arrive(parts, objects, cut)

        one = admit(whole, EVENING)
        two = [admit(parts, day) for day in (EVENING, MORNING)]

        for partition in one.partitions():
            assert _reported([one], partition) == _reported(two, partition)
            assert _log([one], partition) == _log(two, partition)
        assert one.states() == two[-1].states()


# -- interruptions -------------------------------------------------------------------------------------------

DEATHS = (
    ("staging/.*jsonl", 1, "after"),
    ("stage/manifest", 1, "after"),
    ("stage/_done", 1, "before"),
    ("index/.*parquet", 2, "after"),
    ("index/_done", 1, "before"),
    ("index/_done", 1, "after"),
    ("^state/", 1, "after"),
    ("rebuild/state.parquet", 1, "before"),
    ("rebuild/_done", 1, "after"),
    ("admit/log/.*snapshot$", 1, "after"),
    ("admit/segments", 1, "before"),
    ("admit/batches", 1, "after"),
    ("admit/transactions", 1, "before"),
    ("admit/partitions", 1, "after"),
    ("admit/_done", 1, "before"),
    ("admit/_done", 1, "after"),
    ("chain/", 1, "before"),
    ("chain/", 1, "after"),
)


def _tree(place: Place) -> dict[str, bytes]:
    """What a lake holds for ever; locks and ledger hold times and attempts."""
    kept = [found.key for name in ("runs", "state", "chain", "objects") for found in place.lake.list(name)]
    return {key: place.lake.read(key) for key in kept}


def _arrive_somewhat_of_everything(directory: Path) -> None:
    place = place_at(directory, MARKERS)
    for partition in range(3):
        data = (
            batch(0, txn=True) + batch(0, txn=True) + marker(ControlType.ABORT, epoch=1) + batch(9, epoch=1)
        )
        place.arrive(f"dt=2024-05-01/orders-{partition}/a", data)
        place.arrive(
            f"dt=2024-05-01/orders-{partition}/b", batch(0, epoch=1, txn=True)[:-1] + batch(1, pid=5)
        )


@pytest.fixture(scope="module")
def lakes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake for every death, in which the run died and was run again; and one without a failure."""
    directory = tmp_path_factory.mktemp("deaths")
    _arrive_somewhat_of_everything(directory)
    config = directory / "config.yaml"
    config.write_text(MARKERS)
    lines = ["undisturbed (?!) 0 -"]
    for lake, (pattern, number, moment) in enumerate(DEATHS):
        lines += [f"lake-{lake} {pattern} {number} {moment}", f"lake-{lake} (?!) 0 -"]
    command = [sys.executable, "-m", "tests.pipeline.admit_and_die", str(config)]
    ended = subprocess.run(command, input="\n".join(lines), capture_output=True, text=True, check=False)
    assert ended.stdout.split() == ["-9", "0"] * len(DEATHS), ended.stderr
    return directory


@pytest.mark.parametrize("number", range(len(DEATHS)), ids=lambda n: f"{DEATHS[n][2]} {DEATHS[n][0]}")
def test_a_run_killed_at_a_write_and_run_again_has_the_bytes_of_an_undisturbed_one(
    lakes: Path, number: int
) -> None:
    undisturbed, killed = (
        place_at(lakes, MARKERS.replace("lake: lake", f"lake: {name}"))
        for name in ("undisturbed", f"lake-{number}")
    )
    assert _tree(killed) == _tree(undisturbed)


def test_of_two_runs_at_once_one_does_the_run_and_the_other_says_so(tmp_path: Path) -> None:
    _arrive_somewhat_of_everything(tmp_path)
    place = place_at(tmp_path, MARKERS)
    done: list[AdmittedRun] = []
    busy: list[LakeBusy] = []

    def run() -> None:
        try:
            done.append(admit(place, 1))
        except LakeBusy as error:
            busy.append(error)

    threads = [Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(done) + len(busy) == 3
    assert done
    assert len({each_run.run_id for each_run in done}) == 1
    assert [entry.last_step for entry in read_chain(place.lake).entries] == [Step.ADMIT]


def test_the_same_run_again_changes_nothing(tmp_path: Path) -> None:
    _arrive_somewhat_of_everything(tmp_path)
    place = place_at(tmp_path, MARKERS)
    first = admit(place, 1)
    before = _tree(place)

    assert admit(place, 1).run_id == first.run_id
    assert _tree(place) == before
