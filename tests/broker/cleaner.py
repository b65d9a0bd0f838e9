"""A broker's log cleaner, watched by the files that it leaves."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from spark_jobs.kafka.formats.checkpoints import read_offsets
from spark_jobs.kafka.formats.log_files import CLEANER_OFFSET_CHECKPOINT
from tests.broker.admin import Tp


def checkpoint_offsets(data: Path, checkpoint: str) -> dict[Tp, int]:
    """The entries of one of the checkpoint files of a broker's log directory."""
    path = data / checkpoint
    if not path.exists():
        return {}
    return {
        (each.topic, each.partition): each.offset
        for each in read_offsets(path.read_bytes(), source=path.name)
    }


def is_clean(data: Path, tp: Tp, stable: int) -> bool:
    """Whether it came to the segment that it may not enter: the last, or that of an open transaction."""
    files = (data / f"{tp[0]}-{tp[1]}").glob("*.log")
    bases = sorted(int(path.stem) for path in files)
    closed = [base for base in bases if base <= min(stable, bases[-1])]  # none while files change places
    return bool(closed) and checkpoint_offsets(data, CLEANER_OFFSET_CHECKPOINT).get(tp, -1) >= closed[-1]


def while_it_rests(data: Path, topic: str, take: Callable[[], None]) -> None:
    """`take` until nothing of `topic` was cleaned meanwhile: then all that it took is of one log."""
    before: object = None
    while before != (now := _segments(data, topic)):
        before = now
        take()


def _segments(data: Path, topic: str) -> set[tuple[str, int, int]]:
    """A cleaned segment is another file of the same name."""
    found = set()
    for path in data.glob(f"{topic}-*/*.log"):
        with suppress(FileNotFoundError):  # it was cleaned away
            stat = path.stat()
            found.add((f"{path.parent.name}/{path.name}", stat.st_ino, stat.st_mtime_ns))
    return found
