"""What a killed process left is removed by the next one; what a living one has is not touched."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from spark_jobs.lake.scratch_directory import scratch_directory

MAKE_AND_WAIT = """
import sys, time
from pathlib import Path
from spark_jobs.lake.scratch_directory import scratch_directory
directory = scratch_directory(Path(sys.argv[1]))
(directory / "half.parquet").write_bytes(b"PAR1")
print(directory, flush=True)
time.sleep(600)
"""


def test_a_killed_process_leaves_nothing_behind(tmp_path: Path) -> None:
    command = [sys.executable, "-c", MAKE_AND_WAIT, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        left = Path(other.stdout.readline().strip())
        mine = scratch_directory(tmp_path)
        assert left.is_dir()
        os.kill(other.pid, signal.SIGKILL)
    assert left.is_dir()

    second = scratch_directory(tmp_path)

    assert set(tmp_path.iterdir()) == {mine, second}


def test_other_names_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "onceover-1000").mkdir()
    (tmp_path / "onceover-1-x").mkdir()

    mine = scratch_directory(tmp_path)

    assert set(tmp_path.iterdir()) == {tmp_path / "onceover-1000", tmp_path / "onceover-1-x", mine}
