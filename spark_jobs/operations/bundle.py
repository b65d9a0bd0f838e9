"""The packages of Onceover in a zip archive for Spark executors; the same version gives the same bytes."""

from collections.abc import Iterator
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

PACKAGES = ("onceover", "spark_jobs", "expectations")
COMPILED = "__pycache__"
READABLE = 0o644 << 16


def write_bundle(path: Path) -> int:
    """Writes the archive at `path`; returns the number of its files."""
    files = list(_files())
    unfinished = path.with_name(f"{path.name}.unfinished")
    with ZipFile(unfinished, "w", ZIP_DEFLATED) as archive:
        for name, file in files:
            entry = ZipInfo(name)
            entry.external_attr, entry.compress_type = READABLE, ZIP_DEFLATED
            archive.writestr(entry, file.read_bytes())
    unfinished.replace(path)
    return len(files)


def _files() -> Iterator[tuple[str, Path]]:
    for package in PACKAGES:
        root = Path(__file__).parents[2] / package
        for file in sorted(root.rglob("*")):
            if file.is_file() and COMPILED not in file.parts:
                yield f"{package}/{file.relative_to(root).as_posix()}", file
