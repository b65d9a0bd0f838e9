"""Copies of a log directory as they should not be made: file by file, in any order, with files at fault.

A copy is composed of exact copies of several moments. Time passes while files are copied: each file is of the
moment that has come by then, as with a tool that walks the directory of a running broker.
"""

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from random import Random
from struct import Struct

LOG = ".log"
COORDINATOR = "__transaction_state-"
HEADER_BYTES = 61
LENGTH, DELTA, DELTA_POSITION = Struct(">qi"), Struct(">i"), 23


class Order(StrEnum):
    """How the tool walks: a plain `rsync -a` copies `__transaction_state` before most topics."""

    BY_NAME = "by name"
    BY_NAME_BACKWARDS = "by name, backwards"
    DIRECTORIES_SHUFFLED = "directories shuffled"
    FILES_SHUFFLED = "files shuffled"


class Fault(StrEnum):
    """What may be wrong with a copy besides its order."""

    MISSING = "a file is missing"
    STALE = "a partition is of an earlier moment"
    TORN = "a segment is cut off"
    VANISHED = "a partition is missing"
    NO_COORDINATOR = "the coordinator's log is missing"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChaosCopy:
    """A copy, and in words how it was made."""

    description: str
    is_whole: bool


def compose_copy(moments: Sequence[Path], to: Path, random: Random) -> ChaosCopy:
    """A copy that takes from the first to the last of `moments` to make; one or two replicas of it."""
    if to.exists():
        shutil.rmtree(to)
    roots = [to / "broker-1", to / "broker-2"] if random.random() < 0.2 else [to]
    copies = [_compose(moments, root, random) for root in roots]
    return ChaosCopy(
        description=" | ".join(each.description for each in copies),
        is_whole=any(each.is_whole for each in copies),
    )


def _compose(moments: Sequence[Path], root: Path, random: Random) -> ChaosCopy:
    first = random.randrange(len(moments))
    last = random.randrange(first, len(moments))
    order = random.choice(list(Order))
    described = [f"moments {moments[first].name} to {moments[last].name}, {order}"]
    _walk(moments[first : last + 1], root, order, random)
    faults = random.sample(list(Fault), random.choice([0, 0, 1, 1, 2]))
    for fault in faults:
        described += [f"{fault}: {what}" for what in _apply(fault, root, moments[: first + 1], random)]
    return ChaosCopy(description="; ".join(described), is_whole=not faults)


def _walk(moments: Sequence[Path], root: Path, order: Order, random: Random) -> None:
    """Copies every file that is there when its turn comes."""
    files = _in_order({path for moment in moments for path in _files(moment)}, order, random)
    steps = sorted(random.randrange(len(files)) for _ in moments[1:])
    for number, path in enumerate(files):
        source = moments[sum(step <= number for step in steps)] / path
        if source.exists():
            _put(source, root / path)


def _files(moment: Path) -> list[Path]:
    return [path.relative_to(moment) for path in moment.rglob("*") if path.is_file()]


def _in_order(files: set[Path], order: Order, random: Random) -> list[Path]:
    by_name = sorted(files, key=str)
    if order is Order.FILES_SHUFFLED:
        random.shuffle(by_name)
    if order is Order.DIRECTORIES_SHUFFLED:
        places = {parent: random.random() for parent in sorted({path.parent for path in by_name}, key=str)}
        return sorted(by_name, key=lambda path: (places[path.parent], str(path)))
    return by_name[::-1] if order is Order.BY_NAME_BACKWARDS else by_name


def _put(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(source, target)


def _apply(fault: Fault, root: Path, earlier: Sequence[Path], random: Random) -> list[str]:
    """Does it, and says to what."""
    partitions = sorted(path for path in root.iterdir() if path.is_dir())
    match fault:
        case Fault.MISSING:
            return _remove(random.sample(sorted(root.rglob(f"*{LOG}")), 2), root)
        case Fault.VANISHED:
            return _remove([random.choice(partitions)], root)
        case Fault.NO_COORDINATOR:
            return _remove([each for each in partitions if each.name.startswith(COORDINATOR)], root)
        case Fault.TORN:
            return [_tear(random.choice(sorted(root.rglob(f"*{LOG}"))), root, random)]
        case Fault.STALE:
            return [_age(random.choice(partitions), random.choice(earlier), root)]


def _remove(paths: Sequence[Path], root: Path) -> list[str]:
    for path in paths:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    return [str(path.relative_to(root)) for path in paths]


def _tear(path: Path, root: Path, random: Random) -> str:
    size = random.randrange(path.stat().st_size + 1)
    with path.open("r+b") as file:
        file.truncate(size)
    return f"{path.relative_to(root)} at byte {size}"


def _age(directory: Path, moment: Path, root: Path) -> str:
    shutil.rmtree(directory)
    if (moment / directory.name).exists():
        shutil.copytree(moment / directory.name, directory)
    return f"{directory.relative_to(root)} of {moment.name}"


def offsets_in(root: Path) -> dict[tuple[str, int], set[int]]:
    """The offsets of every whole batch below `root` by partition, read from the bytes of segments alone."""
    found: dict[tuple[str, int], set[int]] = {}
    for path in sorted(root.rglob(f"*{LOG}")):
        topic, _, partition = path.parent.name.rpartition("-")
        if partition.isdigit() and not topic.startswith("__"):
            found.setdefault((topic, int(partition)), set()).update(_offsets(path.read_bytes()))
    return found


def _offsets(data: bytes) -> Iterator[int]:
    """A batch begins with its base offset and its length; the last offset delta follows 23 bytes on."""
    position = 0
    while position + HEADER_BYTES <= len(data):
        base_offset, length = LENGTH.unpack_from(data, position)
        if position + LENGTH.size + length > len(data):
            return
        (last_offset_delta,) = DELTA.unpack_from(data, position + DELTA_POSITION)
        yield from range(base_offset, base_offset + last_offset_delta + 1)
        position += LENGTH.size + length
