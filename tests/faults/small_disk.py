"""A run on a disk that is too small, enlarged a little after each failure until the run is done.

Runs in a name space of its own, where it may mount a file system in memory. Prints JSON: what each attempt
said, and in what the lake differs from that of a run that had space from the start.
"""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from spark_jobs.config.load import load_settings
from spark_jobs.config.settings import Settings
from spark_jobs.sample.files import CONFIG, write_sample
from spark_jobs.sample.story import RUN_DATES
from tests.faults.lake_contents import differences, lake_contents
from tests.faults.run_server import FAILED, attempt, forked

PLENTY_KIB, STEP_KIB = 65536, 768


@dataclass(frozen=True)
class Disk:
    """A file system in memory at `place`."""

    place: Path

    def mount(self, kib: int) -> None:
        _run("mount", "-t", "tmpfs", "-o", f"size={kib}k", "tmpfs", str(self.place))

    def resize(self, kib: int) -> None:
        _run("mount", "-o", f"remount,size={kib}k", str(self.place))

    def unmount(self) -> None:
        _run("umount", str(self.place))


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)


def _undisturbed(settings: Settings, disk: Disk) -> dict[str, str]:
    disk.mount(PLENTY_KIB)
    attempt(settings, RUN_DATES[0])
    expected = lake_contents(settings)
    disk.unmount()
    return expected


def main(place: Path) -> None:
    write_sample(place / "sample")
    settings, said = load_settings(place / "sample" / CONFIG), place / "said"
    disk = Disk(Path(settings.lake))
    disk.place.mkdir()
    expected = _undisturbed(settings, disk)
    size, reported = STEP_KIB, list[str]()
    disk.mount(size)
    while (ended := forked(lambda: attempt(settings, RUN_DATES[0]), said)) == FAILED:
        reported.append(said.read_text())
        size += STEP_KIB
        disk.resize(size)
    disk.resize(PLENTY_KIB)  # looking at tables needs space, too
    different = differences(expected, lake_contents(settings))
    disk.unmount()
    print(
        json.dumps({"reported": reported, "ended": ended, "last": said.read_text(), "different": different})
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
