"""Ten times as many records as everything else is compared on: the floor and a whole run, once each.

Their data is removed afterwards: it is larger than all other data of the benchmark.
"""

import shutil
from collections.abc import Sequence
from dataclasses import replace

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
    if shutil.disk_usage(space.home).free < records * BYTES_PER_RECORD:
        return [
            Row(title="onceover", data=data, note=f"less than {records * BYTES_PER_RECORD / 1e9:.0f} GB free")
        ]
    larger = replace(space, volume=replace(space.volume, records=records))
    capture = larger.capture(codec)
    start_up(space)  # the session is up, as in the section `onceover`
    try:
        floor = floor_row(larger, codec)
        found = run_measured(capture, space.spark, scratch=space.home / "lakes")
        run = run_row("onceover", codec, found, objects_of(capture))
    finally:
        shutil.rmtree(capture.parent)
    return [replace(floor, data=data), replace(run, data=data)]
