"""Copies of a broker's log directory: while it lives, and cut where a snapshot allows it."""

import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random

from spark_jobs.kafka.formats.checkpoints import EpochEntry, read_leader_epochs
from spark_jobs.kafka.formats.log_files import LEADER_EPOCH_CHECKPOINT, LogFileKind, parse_file_name

METADATA_LOG = "__cluster_metadata-0"


def copy_live(data: Path, to: Path, *, names: Callable[[str], bool] = bool) -> Path:
    """What a backup finds while the broker continues: files may vanish, appear and grow meanwhile.

    The coordinators' logs come last: then they know of every transaction that the others have data of. With
    `names` only those are copied, over what is there.
    """
    to.mkdir(parents=True, exist_ok=True)
    for path in sorted(data.iterdir(), key=lambda path: (path.name.startswith("__"), path.name)):
        if path.name == METADATA_LOG or not names(path.name):
            continue
        if path.is_dir():
            (to / path.name).mkdir(exist_ok=True)
            for file in sorted(path.iterdir()):
                _copy_if_there(file, to / path.name / file.name)
        else:
            _copy_if_there(path, to / path.name)
    return to


def _copy_if_there(file: Path, to: Path) -> None:
    try:
        shutil.copy2(file, to)
    except FileNotFoundError:
        to.unlink(missing_ok=True)


def cut_at_snapshots(copy: Path, to: Path, random: Random) -> dict[str, int]:
    """A copy in which the log of each user's partition begins at one of its snapshots.

    Returns where they begin; a partition of one segment stays whole.
    """
    shutil.copytree(copy, to)
    starts = {}
    for directory in sorted(path for path in to.iterdir() if path.is_dir()):
        if directory.name.startswith("__"):
            continue
        bases = sorted(int(path.stem) for path in directory.glob("*.log"))
        allowed = [base for base in bases if (directory / f"{base:020d}.snapshot").exists()]
        starts[directory.name] = random.choice(allowed) if allowed else bases[0]
        _drop_before(directory, starts[directory.name])
    return starts


def cut_behind(copy: Path, to: Path, ends: dict[str, int]) -> dict[str, int]:
    """A copy in which retention was faster than runs: logs begin at a segment behind these ends.

    Returns where they begin; a partition without such a segment stays whole.
    """
    shutil.copytree(copy, to)
    starts = {}
    for name, end in ends.items():
        bases = sorted(int(path.stem) for path in (to / name).glob("*.log"))
        starts[name] = next((base for base in bases if base > end), bases[0])
        _drop_before(to / name, starts[name])
    return starts


def _drop_before(directory: Path, start: int) -> None:
    """As a broker deletes segments: it also moves its oldest leader epoch to where its log begins now."""
    _begin_epochs_at(directory / LEADER_EPOCH_CHECKPOINT, start)
    for path in directory.iterdir():
        file = parse_file_name(path.name)
        if file is None:
            continue
        is_snapshot = file.kind is LogFileKind.SNAPSHOT
        if file.offset < start or (is_snapshot and file.offset > start):
            path.unlink()


def _begin_epochs_at(checkpoint: Path, start: int) -> None:
    if not checkpoint.exists():
        return
    entries = read_leader_epochs(checkpoint.read_bytes(), source=str(checkpoint))
    kept = [entry for entry in entries if entry.start_offset > start]
    before = [entry for entry in entries if entry.start_offset <= start]
    if before:
        kept.insert(0, EpochEntry(epoch=before[-1].epoch, start_offset=start))
    lines = ["0", str(len(kept)), *(f"{entry.epoch} {entry.start_offset}" for entry in kept)]
    checkpoint.write_text("\n".join(lines) + "\n")
