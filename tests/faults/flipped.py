"""Copies of a real broker's log with single bits changed, and what a run makes of them."""

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from rich.console import Console

from spark_jobs.config.load import parse_settings
from spark_jobs.config.settings import Settings
from spark_jobs.flow import Step
from spark_jobs.kafka.log.segment import scan_result
from spark_jobs.progress import RunProgress
from spark_jobs.run import execute_run
from tests.in_process import InProcess
from tests.pipeline.materialise.truth import DATA, as_truth, in_order

BEFORE = date(2026, 11, 10)
"""Before the recordings, so that no transaction that they leave open has timed out."""
CONFIG = """
lake: lake
sources: [{name: broker, kind: broker-log, root: source}]
topics: {"*": {gaps: publish_past}}
"""
"""Held behind the damage, less could be published that is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flip:
    """One changed bit of a recorded file; `in_batch` is the byte's place in its batch, maybe a marker."""

    file: str
    position: int
    bit: int
    in_batch: int
    in_marker: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """What came of a source: published records, and how many batches were called damaged."""

    records: list[dict[str, Any]]
    counts: dict[Step, dict[str, int]]


def segments(recording: str) -> list[Path]:
    """The recorded segments of users' topics that hold anything."""
    files = sorted((DATA / recording / "data").glob("[!_]*/*.log"))
    return [path for path in files if path.stat().st_size]


def flip_of(path: Path, position: int, bit: int) -> Flip:
    hit = [found for found in scan_result(path.read_bytes()).batches if found.position <= position][-1]
    return Flip(
        file=str(path.relative_to(path.parents[1])),
        position=position,
        bit=bit,
        in_batch=position - hit.position,
        in_marker=hit.header.is_control,
    )


def result_of(
    place: Path,
    recording: str,
    flips: Sequence[Flip] = (),
    *,
    change: Callable[[Path], object] = lambda source: None,
) -> RunResult:
    """The run of `recording` with these bits flipped and after `change`, up to `materialise`."""
    shutil.copytree(DATA / recording / "data", place / "source")
    change(place / "source")
    for flip in flips:
        file = place / "source" / flip.file
        data = bytearray(file.read_bytes())
        data[flip.position] ^= 1 << flip.bit
        file.write_bytes(data)
    settings = parse_settings(CONFIG, name="test.yaml", base=place)
    outcome = execute_run(
        settings, BEFORE, until=Step.MATERIALISE, spark=InProcess(), progress=RunProgress(Console(quiet=True))
    )
    counts = {done.step: done.counts for done in outcome.done}
    return RunResult(records=_records(settings, outcome.run_id), counts=counts)


def _records(settings: Settings, run_id: str) -> list[dict[str, Any]]:
    directory = Path(settings.lake, "runs", run_id, Step.MATERIALISE, "records")
    found = []
    for file in directory.rglob("*.parquet"):
        topic = file.parent.name
        found += [as_truth(topic, row) for row in pq.read_table(file, partitioning=None).to_pylist()]
    return in_order(found)
