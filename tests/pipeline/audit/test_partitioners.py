"""Runs of a topic whose keys a partitioner has placed: a warning when it changes, and only then."""

from collections.abc import Callable, Iterable
from datetime import date
from pathlib import Path

import pytest
from rich.console import Console

from spark_jobs.config.load import parse_settings
from spark_jobs.config.settings import Settings
from spark_jobs.flow import Step
from spark_jobs.kafka.formats.batch_builder import build_batch
from spark_jobs.kafka.formats.records import Record
from spark_jobs.kafka.partitioners import KEY_HASHES, Partitioner
from spark_jobs.lake.stores import open_lake
from spark_jobs.pipeline.report.run_tables import RunTables
from spark_jobs.progress import RunProgress
from spark_jobs.run import execute_run
from spark_jobs.tables.audit import EXPECTATION_RESULTS
from tests.in_process import InProcess

pytestmark = pytest.mark.usefixtures("great_expectations")

CONFIG = "lake: lake\nsources: [{name: broker, kind: broker-log, root: broker}]\n"
KEYS = [f"order-{number}".encode() for number in range(300)]
Place = Callable[[bytes], int]


class Lake:
    """A broker's log directory that grows between runs, and the runs."""

    def __init__(self, place: Path) -> None:
        self.settings: Settings = parse_settings(CONFIG, name="onceover.yaml", base=place)
        self._broker, self._ends, self._runs = place / "broker", dict[int, int](), 0

    def append(self, place: Place, keys: Iterable[bytes] = KEYS) -> None:
        by_partition: dict[int, list[bytes]] = {}
        for key in keys:
            by_partition.setdefault(place(key), []).append(key)
        for number, own in by_partition.items():
            self._append(number, own)

    def _append(self, number: int, keys: list[bytes]) -> None:
        directory = self._broker / f"orders-{number}"
        directory.mkdir(parents=True, exist_ok=True)
        first = self._ends.get(number, 0)
        batch = build_batch(
            records=[Record(offset_delta=n, key=key, value=b"v") for n, key in enumerate(keys)],
            base_offset=first,
            base_timestamp=1_714_550_400_000,
            partition_leader_epoch=0,
        )
        with (directory / f"{0:020d}.log").open("ab") as log:
            log.write(batch)
        self._ends[number] = first + len(keys)

    def run(self) -> tuple[set[str], list[str]]:
        """Expectations that failed, and what the audit reports besides."""
        self._runs += 1
        outcome = execute_run(
            self.settings,
            date(2024, 5, self._runs),
            until=Step.PUBLISH,
            spark=InProcess(),
            progress=RunProgress(Console(quiet=True)),
        )
        tables = RunTables(open_lake(self.settings), outcome.run_id)
        results = tables.rows(Step.AUDIT, EXPECTATION_RESULTS.file)
        failed = {row["expectation"] for row in results if row["success"] is False}
        messages = tables.json(Step.AUDIT, "messages.json") or []
        return failed, [text for text in messages if not text.startswith("warning: ")]


def _by(partitioner: Partitioner, count: int) -> Place:
    return lambda key: KEY_HASHES[partitioner](key) % count


@pytest.mark.parametrize("place", [*(_by(each, 4) for each in KEY_HASHES), lambda key: sum(key) % 4])
def test_a_partitioner_that_stays_is_no_warning_whichever_it_is(tmp_path: Path, place: Place) -> None:
    lake = Lake(tmp_path)
    for _ in range(2):
        lake.append(place)
        assert lake.run() == (set(), [])


def test_a_change_is_a_warning_of_one_run(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.append(_by(Partitioner.MURMUR2, 4))
    assert lake.run() == (set(), [])
    lake.append(_by(Partitioner.CONSISTENT, 4))
    assert lake.run() == (
        {"keys_are_in_their_partition"},
        ["orders: keys are placed by consistent, in earlier runs by murmur2"],
    )
    lake.append(_by(Partitioner.CONSISTENT, 4))
    assert lake.run() == (set(), [])


def test_a_run_without_the_topic_hands_on_what_is_established(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.append(_by(Partitioner.CONSISTENT, 4))
    lake.run()
    assert lake.run() == ({"sources_bring_new_objects"}, [])
    lake.append(_by(Partitioner.MURMUR2, 4))
    assert lake.run()[0] == {"keys_are_in_their_partition"}


def test_a_topic_that_grows_is_an_event_and_no_warning(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.append(_by(Partitioner.CONSISTENT, 4))
    lake.run()
    lake.append(_by(Partitioner.CONSISTENT, 4), KEYS[:100])
    lake.append(_by(Partitioner.CONSISTENT, 6), KEYS[100:])
    event = "orders: keys are placed among 6 partitions, in earlier runs among 4: the topic has grown"
    assert lake.run() == (set(), [event])
    lake.append(_by(Partitioner.CONSISTENT, 6))
    assert lake.run() == (set(), [])


def test_some_keys_that_move_are_a_warning(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    for moved in (0, 30, 30):
        lake.append(lambda key: (_by(Partitioner.MURMUR2, 4)(key) + 1) % 4, KEYS[:moved])
        lake.append(_by(Partitioner.MURMUR2, 4), KEYS[moved:])
        assert lake.run()[0] == ({"keys_are_in_their_partition"} if moved else set())
