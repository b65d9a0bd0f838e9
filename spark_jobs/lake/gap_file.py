"""The gaps in the offsets of a partition of a broker's log, and the batches that are held behind them.

A state names such a file by its SHA-256. It is canonical: magic "GAPS", version int16, then JSON with the
gaps by offset and the names of files of inherited rows, one for each stretch of offsets, so that a run
rewrites only the stretches that it touches.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from datetime import date
from struct import Struct

from spark_jobs.config.canonical import canonical_json
from spark_jobs.lake.errors import BrokenState
from spark_jobs.lake.inherited_rows import (
    InheritedObject,
    InheritedRows,
    by_stretch,
    get_inherited,
    put_inherited,
)
from spark_jobs.lake.layout import state_key
from spark_jobs.lake.object_store import ObjectStore
from spark_jobs.lake.states import get_content, put_content
from spark_jobs.tables.admit import GapStatus

MAGIC = b"GAPS"
VERSION = 1
_PREAMBLE = Struct(">4sh")


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownGap:
    """Offsets that no copy had; `before` and `after` name the objects on both sides, empty for none.

    `found_on` is the date of the run that found it, in ISO 8601.
    """

    first_offset: int
    last_offset: int
    status: GapStatus
    found_on: str
    before: str = ""
    after: str = ""

    @property
    def found(self) -> date:
        return date.fromisoformat(self.found_on)

    @property
    def offsets(self) -> int:
        return self.last_offset - self.first_offset + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldFile:
    """A file of inherited rows: its name and how many rows it has."""

    digest: str
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionGaps:
    """The known gaps of a partition by offset, open ones and passed ones, and the files of held batches."""

    gaps: tuple[KnownGap, ...] = ()
    held: tuple[HeldFile, ...] = ()

    @property
    def open(self) -> tuple[KnownGap, ...]:
        return tuple(gap for gap in self.gaps if gap.status is GapStatus.OPEN)

    @property
    def passed(self) -> tuple[KnownGap, ...]:
        return tuple(gap for gap in self.gaps if gap.status is not GapStatus.OPEN)

    @property
    def held_batches(self) -> int:
        return sum(file.rows for file in self.held)

    def held_rows(self, lake: ObjectStore) -> Iterator[InheritedRows]:
        """The held batches by offset, a stretch at a time."""
        return (get_inherited(lake, file.digest) for file in self.held)

    def held_objects(self, lake: ObjectStore) -> tuple[InheritedObject, ...]:
        """The objects that hold the batches, each once, by their first batch."""
        return tuple(dict.fromkeys(each for held in self.held_rows(lake) for each in held.objects))


def put_gaps(lake: ObjectStore, found: PartitionGaps) -> str:
    """Stores `found` in the lake; returns the digest that names it, empty if there are no gaps."""
    if not found.gaps and not found.held:
        return ""
    plain = {
        "gaps": [asdict(gap) for gap in found.gaps],
        "held": [asdict(file) for file in found.held],
    }
    return put_content(lake, _PREAMBLE.pack(MAGIC, VERSION) + canonical_json(plain))


def get_gaps(lake: ObjectStore, digest: str) -> PartitionGaps:
    """The gaps of that name; none for the empty name."""
    if not digest:
        return PartitionGaps()
    data, source = get_content(lake, digest), lake.url_of(state_key(digest))
    magic, version = _PREAMBLE.unpack_from(data)
    if (magic, version) != (MAGIC, VERSION):
        raise BrokenState(
            f"{source}: found magic {magic!r}, version {version}; expected {MAGIC!r}, version {VERSION}"
        )
    plain = json.loads(data[_PREAMBLE.size :])
    return PartitionGaps(
        gaps=tuple(KnownGap(**{**each, "status": GapStatus(each["status"])}) for each in plain["gaps"]),
        held=tuple(HeldFile(**each) for each in plain["held"]),
    )


def put_held_rows(lake: ObjectStore, parts: Iterable[InheritedRows]) -> tuple[HeldFile, ...]:
    """Stores batches, ordered by offset, in one file for each stretch of offsets."""
    return tuple(
        HeldFile(digest=put_inherited(lake, kept), rows=len(kept.rows)) for _, kept in by_stretch(parts)
    )
