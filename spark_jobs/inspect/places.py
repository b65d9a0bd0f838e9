"""Places that are no files of a log directory: tiered storage, and `s3://` addresses.

They are shown as the log directory that they are a copy of, made in a scratch directory; reports and remarks
name the place itself.
"""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

from spark_jobs.inspect.inspector import Emit, Options, inspect_paths
from spark_jobs.inspect.printers import Printer, Report, printable
from spark_jobs.kafka.errors import OnceoverError
from spark_jobs.kafka.formats.tier_files import WATERMARK, parse_tier_name

S3 = "s3://"
MOST_DIRECTORIES = 64
"""Directories whose names are looked at to recognise a tier."""


def inspect_places(
    places: Iterable[str], keys: Mapping[str, str], options: Options, printer: Printer, emit: Emit
) -> bool:
    """Shows every place as `inspect_paths` does; `keys` open encrypted objects of tiered storage."""
    with TemporaryDirectory(prefix="onceover-inspect-") as scratch:
        names: dict[str, str] = {}
        paths, asked = [], list(places)
        for number, place in enumerate(asked):
            folder = Path(scratch, str(number))
            try:
                path = _path_of(place, folder, keys)
                paths.append(path)
                names |= {str(path): place, str(folder): place}
            except OnceoverError as problem:
                emit(f"error: {printable(str(problem))}")
        renamed = _Renamed(printer=printer, names=names)
        shown = inspect_paths(paths, options, renamed, lambda text: emit(renamed.name(text)))
        return shown and len(paths) == len(asked)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Renamed:
    """A printer of reports that name places instead of scratch directories."""

    printer: Printer
    names: Mapping[str, str]

    def name(self, text: str) -> str:
        for scratch, place in self.names.items():
            text = text.replace(scratch, place)
        return text

    def report(self, report: Report) -> None:
        """The report of the place."""
        self.printer.report(replace(report, path=self.name(report.path)))

    def heading(self, text: str) -> None:
        """As it is."""
        self.printer.heading(text)

    def lines(self, piece: bytes | memoryview) -> None:
        """As they are."""
        self.printer.lines(piece)


def _path_of(place: str, folder: Path, keys: Mapping[str, str]) -> Path:
    """A path that can be inspected: the place itself, or what it is written as below `folder`."""
    if not place.startswith(S3) and not _may_be_tier(Path(place)):
        return Path(place)
    from spark_jobs.inspect.tier_views import view_of  # noqa: PLC0415 — loads settings and boto3

    return view_of(place, folder, keys)


def _may_be_tier(path: Path) -> bool:
    """Whether a name at `path`, or in the first directories below it, is one of tiered storage."""
    if not path.is_dir():
        return parse_tier_name(path.name) is not None
    directories = islice(os.walk(path), MOST_DIRECTORIES)
    return any(
        name == WATERMARK or parse_tier_name(name) is not None
        for _, _, files in directories
        for name in files
    )
