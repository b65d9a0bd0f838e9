"""`python -m tests.recordings DIR…`: replay recordings of a real broker and print every difference."""

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.recordings.compare_recording import Comparison, compare_recording
from tests.recordings.left_out import FED_IN, LEFT_OUT, Note
from tests.recordings.recording import is_recording, read_recording
from tests.recordings.replay import failure

EQUAL, DIFFERENT, UNUSABLE = 0, 1, 2


def main(arguments: Sequence[str] | None = None) -> int:
    """0 if every recording is reproduced, 1 if there is a difference, 2 if a folder holds no recording."""
    options = _parser().parse_args(arguments)
    if options.explain:
        _explain()
    folders = [folder for given in options.folders for folder in recordings_in(given)]
    missing = [given for given in options.folders if not any(recordings_in(given))]
    for given in missing:
        print(f"{given}: no recording: no data/ and no replies*.jsonl, here or below", file=sys.stderr)
    comparisons = [
        _compare(folder, f"{number}/{len(folders)}") for number, folder in enumerate(folders, start=1)
    ]
    requests = sum(comparison.requests for comparison in comparisons)
    differences = sum(len(comparison.differences) for comparison in comparisons)
    print(f"{requests} requests, {differences} differences")
    return DIFFERENT if differences else UNUSABLE if missing else EQUAL


def recordings_in(folder: Path) -> Iterator[Path]:
    """`folder` itself, or the recordings right below it."""
    if is_recording(folder):
        yield folder
    elif folder.is_dir():
        yield from (path for path in sorted(folder.iterdir()) if is_recording(path))


def _compare(folder: Path, progress: str) -> Comparison:
    print(f"[{progress}] {folder}", file=sys.stderr, flush=True)
    comparison = _comparison(folder)
    for difference in comparison.differences:
        print(f"{comparison.name}: {difference}")
    print(
        f"{comparison.name}: {comparison.requests} requests, {len(comparison.differences)} differences",
        flush=True,
    )
    return comparison


def _comparison(folder: Path) -> Comparison:
    """The comparison of one folder; an unreadable folder does not stop the comparison of the others."""
    try:
        return compare_recording(read_recording(folder))
    except Exception as error:  # noqa: BLE001 - whatever breaks here is a difference to report, not the end
        return Comparison(name=folder.name, requests=0, differences=(failure(str(folder), error),))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.recordings", description=__doc__)
    parser.add_argument(
        "folders", metavar="DIR", type=Path, nargs="*", help="a recording, or a folder of them"
    )
    parser.add_argument(
        "--explain", action="store_true", help="print what is not compared, what is fed in, and why"
    )
    return parser


def _explain() -> None:
    for title, notes in (("Left out of the comparison", LEFT_OUT), ("Taken from the recording", FED_IN)):
        print(f"{title}:")
        for note in notes:
            _print_note(note)


def _print_note(note: Note) -> None:
    print(f"  {note.name}\n      {note.reason}")


if __name__ == "__main__":
    sys.exit(main())
