"""Ten times as many records as everything else is compared on: the floor and a whole run, in turn.

Their data is removed afterwards: it is larger than all other data of the benchmark.
"""

import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from tests.bench.floor import floor_row
from tests.bench.mix_data import objects_of
from tests.bench.onceover import run_row, start_up
from tests.bench.runs import run_measured
from tests.bench.workspace import Row, Workspace

BYTES_PER_RECORD = 300
"""On the disk at a time: the capture, the accepted log and the files of records."""


def measure(space: Workspace) -> Sequence[Row]:
    """Rows as those of the sections `floor` and `onceover`; a disk that is too small is a note."""
    records, codec = space.volume.large_records, space.volume.compared
    data = f"{codec.name.lower()}, {records / 1e6:g} M records"
    space.home.mkdir(parents=True, exist_ok=True)
    if shutil.disk_usage(space.home).free < records * BYTES_PER_RECORD:
        return [
            Row(title="onceover", data=data, note=f"less than {records * BYTES_PER_RECORD / 1e9:.0f} GB free")
        ]
    larger = replace(space, volume=replace(space.volume, records=records))
    capture = larger.capture(codec)
    start_up(space)  # the session is up, as in the section `onceover`
    floors, runs = [], []
    try:
        for number in range(space.volume.large_times):
            floors.append(_synced(lambda: floor_row(larger, codec)))
            runs.append(_synced(lambda: _run(space, capture)))
            space.on_progress(
                f"{data}: floor {floors[-1].seconds:.1f} s, run {runs[-1].seconds:.1f} s ({number + 1})"
            )
    finally:
        shutil.rmtree(capture.parent)
    return [replace(min(rows, key=lambda row: row.seconds), data=data) for rows in (floors, runs)]


def _run(space: Workspace, capture: Path) -> Row:
    found = run_measured(capture, space.spark, scratch=space.home / "lakes")
    return run_row("onceover", space.volume.compared, found, objects_of(capture))


def _synced(work: Callable[[], Row]) -> Row:
    """Dirty pages of what ran before are on the disk first: writing them takes seconds of the next."""
    os.sync()
    return work()
