"""When partitions were copied, as `onceover-copy.json` says."""

import json
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.config.load import parse_settings
from spark_jobs.kafka.topic_partition import TopicPartition
from spark_jobs.lake.chain import Chain
from spark_jobs.lake.manifest import Manifest, ObjectRole, StagedObjects
from spark_jobs.lake.stores import open_lake
from spark_jobs.pipeline.stage.step import stage
from spark_jobs.sources.broker_files import CopiedPartitions, copied_partitions
from tests.pipeline.resolve.run_lake import FIRST_DAY

CONFIG = """
lake: lake
sources:
  - {name: broker, kind: broker-log, root: broker}
"""
SEGMENT = "00000000000000000000.log"
ORDERS, STATE = TopicPartition("orders", 0), TopicPartition("__transaction_state", 7)
SECOND = 1000


def copied(path: str, started: int, finished: int) -> dict[str, Any]:
    return {
        "path": path,
        "started_at": f"1970-01-01T00:00:{started:02d}Z",
        "finished_at": f"1970-01-01T01:00:{finished:02d}+01:00",
    }


class Source:
    """Log directories in a source, and what is staged of them."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.settings = parse_settings(CONFIG, name="test.yaml", base=place)

    def write(self, path: str, data: bytes = b"") -> None:
        file = self.place / "broker" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)

    def times(self, *lines: dict[str, Any], below: str = "") -> None:
        document = {"format": 1, "copied": lines}
        self.write(f"{below}onceover-copy.json", json.dumps(document).encode())

    def manifest(self) -> Manifest:
        return stage(self.settings, FIRST_DAY, lake=open_lake(self.settings), chain=Chain(()), restage=True)

    def found(self) -> CopiedPartitions:
        return copied_partitions(self.manifest().entries, StagedObjects(self.settings))


@pytest.fixture
def source(tmp_path: Path) -> Source:
    source = Source(tmp_path)
    for partition in (ORDERS, STATE):
        source.write(f"{partition}/{SEGMENT}")
    return source


def test_without_the_file_nothing_is_known(source: Source) -> None:
    assert source.found() == CopiedPartitions()


def test_the_longest_path_counts(source: Source) -> None:
    source.times(copied("__transaction_state-", 5, 6), copied("", 1, 2))
    found = source.found()
    assert found.started == {ORDERS: 1 * SECOND, STATE: 5 * SECOND}
    assert found.finished == {ORDERS: 2 * SECOND, STATE: 6 * SECOND}


def test_paths_begin_where_the_file_is_and_of_several_copies_the_latest_counts(source: Source) -> None:
    for broker in ("broker-1", "broker-2"):
        source.write(f"{broker}/{STATE}/{SEGMENT}")
    source.times(copied("", 1, 9), below="broker-1/")
    source.times(copied("", 3, 4), below="broker-2/")
    found = source.found()
    assert (found.started, found.finished) == ({STATE: 3 * SECOND}, {STATE: 9 * SECOND})


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"{", "the file: Invalid JSON"),
        (b'{"format": 2, "copied": []}', "format: Input should be 1"),
        (
            json.dumps({"format": 1, "copied": [{**copied("", 1, 2), "started_at": "1970-01-01"}]}).encode(),
            "copied.0.started_at: Input should have timezone info",
        ),
        (
            json.dumps({"format": 1, "copied": [copied("", 2, 1)]}).encode(),
            "copied.0: 'finished_at' not before",
        ),
    ],
)
def test_what_cannot_be_read_is_named_and_proves_nothing(source: Source, data: bytes, problem: str) -> None:
    source.write("onceover-copy.json", data)
    found = source.found()
    assert found.started == found.finished == {}
    (sentence,) = found.problems
    assert sentence.startswith(
        f"broker: onceover-copy.json: not readable as copy times, so it proves nothing: {problem}"
    )


def test_the_file_is_part_of_the_digest_and_the_stores_own_times_are_not(source: Source) -> None:
    plain = source.manifest()
    assert all(entry.copied_at > 0 for entry in plain.entries)
    log = source.place / "broker" / str(ORDERS) / SEGMENT
    log.touch()
    assert source.manifest().digest == plain.digest
    source.times(copied("", 1, 2))
    first = source.manifest()
    source.times(copied("", 1, 3))
    assert len({plain.digest, first.digest, source.manifest().digest}) == 3
    assert {entry.role for entry in first.entries} == {ObjectRole.LOG, ObjectRole.COPY_TIMES}
