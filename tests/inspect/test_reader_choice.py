"""Compiled reading is chosen by all bytes that are asked for, and by whether it has been compiled before."""

import os
import subprocess
import sys
from io import BytesIO
from pathlib import Path

import pytest

from spark_jobs.inspect.inspector import Options, inspect_paths
from spark_jobs.inspect.printers import JsonPrinter
from spark_jobs.inspect.segment_files import is_fast_for
from spark_jobs.reading import plain
from spark_jobs.reading.plain import COMPILED_FROM, RECORDS_COMPILED_FROM
from tests.pipeline.batches import batch

LOADED = (
    "import sys; from typer.testing import CliRunner; from spark_jobs.cli import app;"
    "result = CliRunner().invoke(app, ['inspect', '--json', *sys.argv[1:]]);"
    "assert result.exit_code == 0, result.stderr; print('numba' in sys.modules)"
)


def _log_directory(directory: Path, count: int) -> Path:
    """Two partitions with segments of about 64 KiB."""
    for number in range(count):
        partition = directory / f"orders-{number % 2}"
        partition.mkdir(parents=True, exist_ok=True)
        offsets = range(32 * (number // 2), 32 * (number // 2 + 1))
        data = b"".join(batch(offset, at=offset, value=bytes(2000)) for offset in offsets)
        (partition / f"{offsets.start:020d}.log").write_bytes(data)
    return directory


def _loads_numba(where: Path, option: str, **environment: str) -> bool:
    """Whether `onceover inspect` reads this log directory with compiled code."""
    done = subprocess.run(
        [sys.executable, "-c", LOADED, str(where), *([option] if option else [])],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1] == "True"


@pytest.fixture
def compiled(tmp_path: Path) -> None:
    """The kernels that `inspect` needs are in the cache."""
    data = batch(0, at=0, value=b"v")
    (tmp_path / "orders-0").mkdir()
    (tmp_path / "orders-0" / f"{0:020d}.log").write_bytes(data)
    for records in (True, False):
        options = Options(records=records, fast=True, as_json=True, progress=False)
        assert inspect_paths([tmp_path / "orders-0"], options, JsonPrinter(BytesIO()), print)


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize(("count", "is_compiled"), [(2, False), (40, True)])
@pytest.mark.parametrize("option", ["--records", ""])
def test_many_small_segments_are_read_by_the_kernel_and_few_are_not(
    tmp_path: Path, count: int, option: str, *, is_compiled: bool
) -> None:
    assert _loads_numba(_log_directory(tmp_path / "logs", count), option) is is_compiled


@pytest.mark.parametrize("option", ["--records", ""])
def test_what_is_read_sooner_than_compiled_is_read_plainly(tmp_path: Path, option: str) -> None:
    where = _log_directory(tmp_path / "logs", 40)
    assert not _loads_numba(where, option, NUMBA_CACHE_DIR=str(tmp_path / "cache"))


@pytest.mark.parametrize(
    ("size", "records", "is_fast"),
    [
        (COMPILED_FROM - 1, False, False),
        (COMPILED_FROM, False, True),
        (RECORDS_COMPILED_FROM - 1, True, False),
        (RECORDS_COMPILED_FROM, True, True),
    ],
)
def test_kernels_are_compiled_for_much_to_read(
    monkeypatch: pytest.MonkeyPatch, size: int, *, records: bool, is_fast: bool
) -> None:
    monkeypatch.setattr(plain, "are_compiled", lambda *_: False)
    assert is_fast_for(size, records=records) is is_fast
