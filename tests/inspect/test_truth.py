"""The records that `inspect` shows of a real broker's log directory are the ones that a real consumer got."""

import json
from pathlib import Path

import pytest

from spark_jobs.inspect.inspector import Options, inspect_paths
from spark_jobs.inspect.printers import JsonPrinter
from spark_jobs.inspect.stored_partition import read_partition
from spark_jobs.reading.isolation import Isolation
from tests.inspect.conftest import Inspect

DATA = Path(__file__).parents[1] / "recordings" / "data"
RECORDINGS = sorted(path.parent for path in DATA.glob("*/truth.jsonl"))
TRUTH = {Isolation.READ_COMMITTED: "truth.jsonl", Isolation.READ_UNCOMMITTED: "truth_uncommitted.jsonl"}


def by_partition(lines: list[str]) -> dict[str, list[str]]:
    """Lines of each partition in their order; the order of partitions is not defined."""
    found: dict[str, list[str]] = {}
    for line in lines:
        found.setdefault(line.partition(', "offset"')[0], []).append(line)
    return found


def test_there_are_recordings_to_compare_with() -> None:
    assert len(RECORDINGS) >= 5


@pytest.mark.parametrize("isolation", Isolation)
@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda path: path.name)
def test_json_records_of_a_log_directory_are_the_consumers_line_by_line(
    inspect: Inspect, recording: Path, isolation: Isolation
) -> None:
    result = inspect(recording / "data", "--records", "--json", "--isolation", isolation)
    assert result.exit_code == 0
    truth = (recording / TRUTH[isolation]).read_text().splitlines()
    assert by_partition(result.stdout.splitlines()) == by_partition(truth)


@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda path: path.name)
def test_compiled_reading_gives_the_same_records(recording: Path, tmp_path: Path) -> None:
    options = Options(records=True, as_json=True, isolation=Isolation.READ_COMMITTED, fast=True)
    with (tmp_path / "out").open("wb") as out:
        assert inspect_paths([recording / "data"], options, JsonPrinter(out), lambda _: None)
    truth = (recording / "truth.jsonl").read_text().splitlines()
    assert by_partition((tmp_path / "out").read_text().splitlines()) == by_partition(truth)


@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda path: path.name)
def test_offsets_of_every_partition_are_the_brokers(recording: Path) -> None:
    for name, expected in json.loads((recording / "offsets.json").read_text()).items():
        seen = read_partition(recording / "data" / name).visibility
        assert seen.log_start_offset == expected["log_start_offset"], name
        assert seen.log_end_offset == expected["high_watermark"], name
        assert seen.last_stable_offset == expected["last_stable_offset"], name
