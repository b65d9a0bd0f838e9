"""Compiled reading is chosen by all bytes that are asked for: many small segments are much to read."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.pipeline.batches import batch

LOADED = (
    "import sys; from typer.testing import CliRunner; from spark_jobs.cli import app;"
    "result = CliRunner().invoke(app, ['inspect', '--json', *sys.argv[1:]]);"
    "assert result.exit_code == 0, result.stderr; print('numba' in sys.modules)"
)


def _log_directory(directory: Path, segments: int) -> Path:
    """Two partitions with segments of about 64 KiB."""
    for number in range(segments):
        partition = directory / f"orders-{number % 2}"
        partition.mkdir(parents=True, exist_ok=True)
        offsets = range(32 * (number // 2), 32 * (number // 2 + 1))
        data = b"".join(batch(offset, at=offset, value=bytes(2000)) for offset in offsets)
        (partition / f"{offsets.start:020d}.log").write_bytes(data)
    return directory


@pytest.mark.parametrize(("segments", "is_compiled"), [(2, False), (40, True)])
@pytest.mark.parametrize("option", ["--records", ""])
def test_many_small_segments_are_read_by_the_kernel_and_few_are_not(
    tmp_path: Path, segments: int, option: str, *, is_compiled: bool
) -> None:
    where = [str(_log_directory(tmp_path / "logs", segments)), *([option] if option else [])]
    done = subprocess.run(
        [sys.executable, "-c", LOADED, *where], capture_output=True, text=True, check=False
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == str(is_compiled)
