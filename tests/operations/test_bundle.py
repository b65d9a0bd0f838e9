"""The bundle has the package as the driver runs it."""

import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

from spark_jobs.operations.bundle import write_bundle


def test_the_package_runs_from_the_unpacked_bundle(tmp_path: Path) -> None:
    write_bundle(tmp_path / "onceover.zip")
    ZipFile(tmp_path / "onceover.zip").extractall(tmp_path / "onceover")

    script = (
        "import spark_jobs.pipeline.index.worker as w, expectations.gate as f; print(w.__file__, f.__file__)"
    )
    environment = {"PYTHONPATH": str(tmp_path / "onceover")}
    said = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )

    assert all(Path(file).is_relative_to(tmp_path / "onceover") for file in said.stdout.split())


def test_the_same_version_gives_the_same_bytes(tmp_path: Path) -> None:
    counts = {write_bundle(tmp_path / name) for name in ("a.zip", "b.zip")}

    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()
    assert counts == {len(ZipFile(tmp_path / "a.zip").namelist())}
