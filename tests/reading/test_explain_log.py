"""`onceover explain PATH` says which consumers get each batch of a stored log, and why."""

import json
from collections import defaultdict
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from spark_jobs.cli import app
from spark_jobs.reading.explain_log import VisibleTo, explain_partition
from spark_jobs.reading.partition_scan import scan_partition
from spark_jobs.reading.stored_log import choose, find_partitions
from tests.pipeline.batches import batch, marker
from tests.reading.conftest import RECORDINGS, read

GETS = {
    "read_committed": {VisibleTo.ALL},
    "read_uncommitted": {VisibleTo.ALL, VisibleTo.READ_UNCOMMITTED},
}
BEHIND = "it is behind the last stable offset 2, where the open transaction of producer 4001 begins"


def _explain(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["explain", *map(str, arguments)])


def _partition(tmp_path: Path, data: bytes) -> Path:
    directory = tmp_path / "orders-0"
    directory.mkdir()
    (directory / "00000000000000000000.log").write_bytes(data)
    return directory


@pytest.mark.parametrize("isolation", GETS)
@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda path: path.name)
def test_every_record_of_a_consumer_is_in_a_batch_that_is_visible_to_it(
    recording: Path, isolation: str
) -> None:
    records = defaultdict(set)
    for row in read(
        recording / "data", isolation=isolation, columns=["topic", "partition", "offset"]
    ).to_pylist():
        records[row["topic"], row["partition"]].add(row["offset"])
    for files in choose(find_partitions(recording / "data"), None, None):
        got = records[files.topic, files.partition]
        for answer in explain_partition(scan_partition(files)):
            held = {offset for offset in got if answer.first_offset <= offset <= answer.last_offset}
            assert answer.visible_to in GETS[isolation] or not held, answer.sentence
            got -= held
        assert not got


def test_the_sample_has_the_reason_of_every_batch(sample: Path) -> None:
    result = _explain(sample / "orders-1", "--json")
    answers = [json.loads(line) for line in result.stdout.splitlines()]

    assert [(answer["visible_to"], answer["reason"]) for answer in answers] == [
        ("all consumers", "its transaction begins at offset 0 and was committed by the marker at offset 1"),
        ("none", "consumers do not get markers; it ends the transaction that begins at offset 0"),
        ("read_uncommitted", "its transaction begins at offset 2 and has no marker in this log"),
        (
            "read_uncommitted",
            f"it is in no transaction; {BEHIND}",
        ),
    ]
    assert answers[0]["batch"] == "transactional batch of producer 4000, epoch 0, sequence 0"
    assert answers[0]["place"] == "00000000000000000000.log at byte 0"


def test_an_offset_is_answered_with_a_sentence_also_where_there_is_no_batch(tmp_path: Path) -> None:
    directory = _partition(tmp_path, batch(0, at=0, count=2) + batch(2, at=5))

    for offset, answer in {
        1: "batch of producer 1, epoch 0, sequences 0 to 1 at offsets 0 to 1: visible to all consumers; ",
        3: "no batch at offset 3: visible to none; offsets 2 to 4 are in no batch: ",
        6: "no batch at offset 6: visible to none; the log ends at offset 6",
    }.items():
        result = _explain(directory, "--offset", offset)
        assert result.exit_code == 0
        assert result.stdout.splitlines()[-1].startswith(answer)


def test_repeated_sequences_damage_and_a_torn_tail_are_named(tmp_path: Path) -> None:
    damaged = bytearray(batch(3, at=4))
    damaged[-1] ^= 1
    log = batch(0, at=0) + batch(0, at=1) + marker(pid=1, epoch=0, at=2) + batch(1, at=3) + bytes(damaged)
    result = _explain(_partition(tmp_path, log + batch(4, at=5)[:50]), "--json")
    reasons = [json.loads(line)["reason"] for line in result.stdout.splitlines()]

    assert reasons[1] == "it is in no transaction; the batch at offset 0 has the same sequences"
    assert reasons[2] == "consumers do not get markers; it ends no transaction"
    assert reasons[4] == "its checksum does not match its bytes: a consumer fails here"
    assert "warning: " in result.stderr
    assert "torn tail at byte" in result.stderr
    assert "error: " in result.stderr


def test_a_path_without_a_log_and_options_of_a_lake_are_refused(tmp_path: Path) -> None:
    missing, mixed = _explain(tmp_path / "none"), _explain("orders", "0")
    assert (missing.exit_code, mixed.exit_code) == (1, 2)
    assert "there is no such file or directory" in missing.stderr
    assert "expected --config" in mixed.stderr
    unknown = _explain(_partition(tmp_path, batch(0, at=0)), "--producer-id", "9")
    assert (unknown.exit_code, "no batch of this producer" in unknown.stderr) == (1, True)
