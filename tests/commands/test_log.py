"""`onceover log`: runs of captures become a directory that Kafka's own tools and loaders read."""

import re
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from spark_jobs.cli import app
from spark_jobs.flow import Step
from spark_jobs.kafka.formats import snapshot
from spark_jobs.kafka.formats.control_record import ControlType
from spark_jobs.kafka.formats.indexes import AbortedTxn, read_txn_index
from spark_jobs.kafka.formats.record_batch import assign_offset
from spark_jobs.kernels.producers import ProducerTable, read_snapshot, write_snapshot
from spark_jobs.sample.broker.log_loader import load
from tests.broker.judge import JudgeUnavailableError, java_command
from tests.pipeline.admitted import AdmittedRun, admit
from tests.pipeline.batches import batch, marker
from tests.pipeline.runs import CAPTURE, Place, place_at

CONFIG = CAPTURE + "    markers: true\nlimits: {segment_bytes: 1MiB, max_batch_bytes: 1MiB}\n"
LARGE = b"v" * 200_000


def _call(place: Place, to: Path, *arguments: str) -> Result:
    config = place.directory / "onceover.yaml"
    config.write_text(CONFIG)
    return CliRunner().invoke(app, ["log", "--config", str(config), "--to", str(to), *arguments])


@pytest.fixture
def runs(tmp_path: Path) -> tuple[Place, AdmittedRun]:
    """Two runs with segments that roll, an aborted transaction over midnight, and a second topic."""
    place = place_at(tmp_path, CONFIG)
    place.arrive("dt=2024-05-01/orders-0/a", b"".join(batch(n, value=LARGE) for n in range(12)))
    place.arrive("dt=2024-05-01/orders-0/b", batch(0, pid=2, txn=True, count=2))
    place.arrive("dt=2024-05-01/payments-3/a", batch(0))
    second = batch(0, pid=3, txn=True) + marker(ControlType.ABORT, pid=2, epoch=1) + batch(12, value=LARGE)
    place.arrive("dt=2024-05-02/orders-0/c", second)
    admit(place, 1, until=Step.MATERIALISE)
    return place, admit(place, 2, until=Step.MATERIALISE)


def test_the_directory_holds_what_a_broker_needs(runs: tuple[Place, AdmittedRun], tmp_path: Path) -> None:
    result = _call(runs[0], tmp_path / "out")

    assert result.exit_code == 0
    assert "orders-0  4 segments from offset 0" in result.stdout
    names = sorted(path.name for path in (tmp_path / "out/orders-0").iterdir())
    assert names == [
        "00000000000000000000.log",
        "00000000000000000005.log",
        "00000000000000000005.snapshot",
        "00000000000000000010.log",
        "00000000000000000010.snapshot",
        "00000000000000000014.log",
        "00000000000000000014.snapshot",
        "00000000000000000014.txnindex",
        "00000000000000000017.snapshot",
        "leader-epoch-checkpoint",
    ]
    index = (tmp_path / "out/orders-0/00000000000000000014.txnindex").read_bytes()
    assert read_txn_index(index) == (
        AbortedTxn(producer_id=2, first_offset=12, last_offset=15, last_stable_offset=14),
    )


def test_a_broker_that_loads_it_knows_the_same_producers(
    runs: tuple[Place, AdmittedRun], tmp_path: Path
) -> None:
    place, last = runs
    _call(place, tmp_path / "out")
    files = {path.name: path.read_bytes() for path in (tmp_path / "out/orders-0").iterdir()}

    for name in ("with snapshots", "without"):
        kept = {key: data for key, data in files.items() if name == "with snapshots" or key.endswith(".log")}
        log = load(kept, clean=False, now=0)
        found = snapshot.write_snapshot(log.manager.producers.values())
        rows = ProducerTable(read_snapshot(found)).canonical()
        assert write_snapshot(rows) == write_snapshot(last.state().producers)
        assert log.log_end_offset == last.state().end_offset
        assert [entry.last_offset for entry in log.aborted] == [15]


def test_snapshots_at_segment_starts_are_those_that_a_broker_takes_there(
    runs: tuple[Place, AdmittedRun], tmp_path: Path
) -> None:
    _call(runs[0], tmp_path / "out")
    files = {path.name: path.read_bytes() for path in (tmp_path / "out/orders-0").iterdir()}
    segments = [name for name in files if name.endswith(".log")]
    for name in sorted(segments)[1:]:
        before = {each: files[each] for each in segments if each < name}
        producers = load(before, clean=False, now=0).manager.producers.values()
        expected = ProducerTable(read_snapshot(snapshot.write_snapshot(producers))).canonical()
        assert files[name.replace(".log", ".snapshot")] == write_snapshot(expected)


def test_one_topic_can_be_chosen(runs: tuple[Place, AdmittedRun], tmp_path: Path) -> None:
    _call(runs[0], tmp_path / "out", "--topic", "payments")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["payments-3"]


def test_nothing_is_overwritten(runs: tuple[Place, AdmittedRun], tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out/mine").write_text("")
    result = _call(runs[0], tmp_path / "out")
    assert result.exit_code == 1
    assert "is not empty" in result.stderr


def test_a_file_that_was_changed_in_the_lake_is_not_handed_out(
    runs: tuple[Place, AdmittedRun], tmp_path: Path
) -> None:
    place, _ = runs
    [path] = (place.directory / "lake/runs").glob("*/materialise/log/payments-3/*.log")
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    result = _call(place, tmp_path / "out")
    assert result.exit_code == 1
    assert "its digest differs from the one that its run recorded" in result.stderr


def test_kafkas_own_dump_tool_reads_every_file(runs: tuple[Place, AdmittedRun], tmp_path: Path) -> None:
    place, last = runs
    _call(place, tmp_path / "out")
    files = sorted(path for path in (tmp_path / "out/orders-0").iterdir() if path.suffix)
    try:
        command = java_command("org.apache.kafka.tools.DumpLogSegments", "--files", ",".join(map(str, files)))
    except JudgeUnavailableError as missing:
        pytest.skip(f"kafka-dump-log was not run: {missing}")
    dumped = subprocess.run(command, capture_output=True, text=True, check=True).stdout

    batches = re.findall(r"^baseOffset: (\d+) lastOffset: (\d+) .*isvalid: (\w+)", dumped, re.MULTILINE)
    assert [int(first) for first, _, _ in batches] == [*range(13), 14, 15, 16]
    assert {valid for _, _, valid in batches} == {"true"}
    assert "Found invalid" not in dumped
    assert re.search(r"producerId: 2 .*firstOffset: 12 lastOffset: 15 lastStableOffset: 14", dumped)
    shown = dumped.rpartition("Dumping")[2]
    for row in last.state().producers:
        assert f"producerId: {row['producer_id']} producerEpoch: {row['producer_epoch']}" in shown


def test_many_batches_freed_at_once_still_fill_segments_of_the_configured_size(tmp_path: Path) -> None:
    place = place_at(tmp_path, CONFIG.replace("markers: true", "on_gap: park"))
    place.arrive("dt=2024-05-01/orders-0/a", b"".join(batch(n, value=LARGE) for n in range(1, 13)))
    place.arrive("dt=2024-05-01/orders-0/b", batch(0, value=LARGE))
    run = admit(place, 1)

    files = run.log()

    segments = {name: data for name, data in files.items() if name.endswith(".log")}
    assert len(segments) == 3
    assert all(len(data) <= 2**20 for data in segments.values())
    log = load(files, clean=False, now=0)
    assert log.log_end_offset == 13
    assert log.manager.producers[1].last_sequence == 12


def test_batches_that_waited_in_objects_of_earlier_runs_are_in_the_log_where_they_were_accepted(
    tmp_path: Path,
) -> None:
    place = place_at(tmp_path, CONFIG.replace("markers: true", "on_gap: park"))
    place.arrive("dt=2024-05-01/orders-0/a", batch(0) + batch(2, value=b"two") + batch(3, value=LARGE))
    place.arrive("dt=2024-05-02/orders-0/b", batch(0, pid=2) + batch(4, value=LARGE))
    place.arrive("dt=2024-05-03/orders-0/c", batch(1) + batch(5))
    for day in (1, 2, 3):
        admit(place, day, until=Step.MATERIALISE)

    assert _call(place, tmp_path / "out").exit_code == 0

    last = (tmp_path / "out/orders-0/00000000000000000002.log").read_bytes()
    waited = [batch(2, value=b"two"), batch(3, value=LARGE), batch(4, value=LARGE)]
    assert last == b"".join(
        assign_offset(data, base_offset=2 + number, partition_leader_epoch=0)
        for number, data in enumerate([batch(1), *waited, batch(5)])
    )
