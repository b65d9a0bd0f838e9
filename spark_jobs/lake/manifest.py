"""The manifest of a run: its objects, their order and content; and how staged objects are read.

The digest covers what decides the outcome: path, order and content of every object, and what was set aside.
It leaves out where the bytes are stored and when they were written, so the same copied objects have the same
digest from a file system and from S3. A referenced object is identified by the checksum that its store keeps,
or by its SHA-256 where the store keeps none. A large captured file that is referenced is identified by the
headers of its batches, and for its own run by its version, too: a repaired file is another run's input.
"""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from datetime import date
from enum import StrEnum
from pathlib import Path
from typing import Any

from spark_jobs.config.canonical import canonical_json
from spark_jobs.config.settings import Settings
from spark_jobs.flow import Step
from spark_jobs.kafka.producers.producer_state import AppendOrigin
from spark_jobs.lake.checksums import HEADERS, algorithm_of
from spark_jobs.lake.errors import BrokenRun, sealed, understood, unsealed
from spark_jobs.lake.layout import object_key, step_key
from spark_jobs.lake.object_store import ObjectStore
from spark_jobs.lake.run_folder import MANIFEST
from spark_jobs.lake.stores import open_store

FORMAT = 2
NO_PARTITION = -1
SourcePath = tuple[str, str]
"""Source and path of an object."""
NOT_IN_DIGEST = ("version", "referenced", "copied_at", "detail", "why", "inherited_from", "cluster_id")
_ALL_BUT_VERSION = NOT_IN_DIGEST[1:]
LEFT_OUT_IF_EMPTY = (
    "checksum",
    "topic_id",
    "cluster_id",
    "inherited",
    "inherited_bytes",
    "inherited_from",
    "next_offset",
    "copy",
    "state_offset",
)
"""Fields of an entry that earlier versions did not have: manifests without them keep their digests."""


class ObjectRole(StrEnum):
    """The purpose of an object."""

    CAPTURE = "capture"
    LOG = "log"
    SNAPSHOT = "snapshot"
    SWAP = "swap"
    """A compacted segment that was about to replace others when the copy was made (facts §6.1).

    It counts as a copy of its own: it is used where the segments that it replaces are already deleted. Where
    they still exist, they have all its batches and more; a broker that starts would delete them.
    """
    TXN_INDEX = "txnindex"
    LEADER_EPOCHS = "leader_epochs"
    PARTITION_METADATA = "partition_metadata"
    LOG_DIRECTORY = "log_directory"
    """A checkpoint, clean-shutdown or identity file of a whole log directory: it has no topic."""
    COPY_TIMES = "copy_times"
    """When the files of its directory were copied (`sources.broker_files`): it has no topic."""
    ANSWERS = "answers"
    """What a broker answered to the batches of the capture object beside it: it has no topic."""


def _is_by_headers(checksum: str) -> bool:
    return algorithm_of(checksum) == HEADERS


_ROLES: dict[str, ObjectRole] = {role.value: role for role in ObjectRole}
SEGMENT_ROLES = frozenset({ObjectRole.LOG, ObjectRole.SWAP})
BATCH_ROLES = SEGMENT_ROLES | {ObjectRole.CAPTURE}
"""Objects that hold record batches."""


def counts_keys(settings: Settings, topic: str, role: ObjectRole) -> bool:
    """Whether `index` counts records without a key: where a leader checks keys, in captures of a compacted
    topic (facts §2.11).
    """
    return role is ObjectRole.CAPTURE and settings.topic(topic).is_compacted


class SetAside(StrEnum):
    """Why an object is not among the inputs."""

    VANISHED = "vanished"
    CHANGED = "changed"
    UNREADABLE = "unreadable"
    UNSAFE_NAME = "unsafe_name"
    NOT_A_FILE = "not_a_file"
    NO_PARTITION = "no_partition"
    NO_DATE = "no_date"
    INCOMPLETE = "incomplete"
    """An upload to tiered storage that lacks objects: it is under way, or was given up."""
    DAMAGED = "damaged"
    """An object of tiered storage that cannot be decoded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestEntry:
    """One object.

    `order` is the arrival order within a topic-partition, and no two objects of a manifest have the same; it
    counts from 0, unless a backfill lets unchanged partitions keep the numbers that they had. `path` is
    relative to the source's root. `day` is the date its directory spells, empty without such a layout.
    `version` is the store's own (ETag; size, time and inode). `referenced` bytes are at the source, others in
    the lake. `checksum` instead of `sha256` is the store's own digest of a referenced object that was not
    read (`lake.checksums`). `seen`: a final run of an earlier date had the same path with the same bytes.
    `topic_id` is what the object's directory has in `partition.metadata`, empty if unknown; `cluster_id`
    that of `meta.properties`. `copied_at` is the store's own time of the object, ms since 1970, 0 if unknown.

    Of a segment that an earlier run had, the first `inherited_bytes` are whole batches that its state has
    judged, up to `next_offset`: this run reads what is behind them, or nothing at all if the segment is
    `inherited`. `inherited_from` is the SHA-256 of the version that the earlier run had.

    In tiered storage `copy` names the copy of the log that a segment belongs to, where segments of its
    directory overlap, and `state_offset` is the offset that a snapshot's state ends at, which its name does
    not have.
    """

    order: int
    source: str
    role: ObjectRole
    topic: str = ""
    partition: int = NO_PARTITION
    day: str = ""
    path: str
    size: int
    sha256: str
    checksum: str = ""
    version: str = ""
    referenced: bool = False
    seen: bool = False
    topic_id: str = ""
    cluster_id: str = ""
    copied_at: int = 0
    inherited: bool = False
    inherited_bytes: int = 0
    inherited_from: str = ""
    next_offset: int = 0
    copy: str = ""
    state_offset: int = 0

    @property
    def name(self) -> str:
        """The object's own name, the last part of its path."""
        return self.path.rpartition("/")[2]

    @property
    def is_by_headers(self) -> bool:
        """Whether it is identified by headers: another version of it may have other damaged bytes."""
        return _is_by_headers(self.checksum)

    @property
    def content(self) -> str:
        """Identifies the bytes: the SHA-256, or the store's own checksum."""
        return self.sha256 or self.checksum

    @property
    def origin(self) -> AppendOrigin:
        """Whether clients sent the object's batches, which have no offsets yet, or brokers assigned them."""
        return AppendOrigin.CLIENT if self.role is ObjectRole.CAPTURE else AppendOrigin.REPLICATION

    @property
    def directory(self) -> str:
        """Its directory: the copy of a partition, or the log directory, that it belongs to."""
        return self.path.rpartition("/")[0]

    @property
    def copy_directory(self) -> str:
        """Identifies a copy of a partition's log: a swap segment is a copy of its own."""
        if self.copy:
            return self.copy
        return f"{self.directory}/{self.role}" if self.role is ObjectRole.SWAP else self.directory

    @property
    def log_directory(self) -> str:
        """The broker's log directory around it: one per replica."""
        return self.directory if self.partition == NO_PARTITION else self.directory.rpartition("/")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class StageProblem:
    """One object that was set aside; `detail` is the sentence for people."""

    source: str
    path: str
    reason: SetAside
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BareSource:
    """A source in which nothing was recognised; sources that have objects of partitions are not listed.

    `bare` is its name, `objects` how many it has of any kind, and `is_known` says that an earlier run has
    read objects of it. `detail` is the sentence for people.
    """

    bare: str
    objects: int
    is_known: bool
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """A replay of an earlier run's quarantined batch, as decided by a person.

    `origin` is that run; `source`, `path` and `position` locate the batch in it, `arrival` is its order among
    the batches of its partition. `sha256` and `size` name the copy of its bytes in the lake. Where the batch
    keeps its offsets, `inherited` names a file with its row, and `offsets` selects records, all of them if
    empty. `why` is the reason that the person gave.
    """

    decision: str
    way: str
    kind: str
    origin: str
    topic: str
    partition: int
    source: str
    path: str
    position: int
    arrival: int
    size: int
    sha256: str
    inherited: str = ""
    records: int = 0
    offsets: tuple[int, ...] = ()
    transactional_id: str | None = None
    why: str

    @property
    def place(self) -> tuple[str, str, int]:
        """The location of the batch: source, path and position."""
        return self.source, self.path, self.position


@dataclass(frozen=True, slots=True, kw_only=True)
class Truncation:
    """A log that an earlier run gave a captured partition, from the offset on where this run begins.

    `segments` are what it wrote on the same date, base offset and digest each, and `epochs` its leader
    epochs, epoch and start offset each. As far as this run writes the same segments, it writes them under
    the same epochs. From the first one that differs on the old log is cut off: `leader_epoch` begins.
    """

    topic: str
    partition: int
    leader_epoch: int
    epochs: tuple[tuple[int, int], ...] = ()
    segments: tuple[tuple[int, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """Everything that a run reads, in arrival order, the objects set aside, and the replays.

    `truncations` are the captured partitions whose log it may have to rewrite, `bare_sources` those without
    an object that could be taken.
    """

    day: date
    entries: tuple[ManifestEntry, ...] = ()
    problems: tuple[StageProblem, ...] = ()
    replays: tuple[Replay, ...] = ()
    truncations: tuple[Truncation, ...] = ()
    bare_sources: tuple[BareSource, ...] = ()

    @property
    def digest(self) -> str:
        """SHA-256 of the decisive part of every line, in hexadecimal."""
        total = hashlib.sha256()
        for line in _lines(self):
            left_out = _ALL_BUT_VERSION if _is_by_headers(line.get("checksum", "")) else NOT_IN_DIGEST
            decisive = {key: value for key, value in line.items() if key not in left_out}
            total.update(canonical_json(decisive) + b"\n")
        return total.hexdigest()

    @property
    def batches(self) -> tuple[ManifestEntry, ...]:
        """The objects that hold record batches which the run reads."""
        return tuple(entry for entry in self.entries if entry.role in BATCH_ROLES and not entry.inherited)

    @property
    def bytes_read(self) -> int:
        """Bytes of all objects that the run has to read."""
        return sum(entry.size - entry.inherited_bytes for entry in self.entries if not entry.inherited)

    def to_bytes(self) -> bytes:
        """JSON lines: a heading, the entries in order, objects set aside, replays, a checksum."""
        return sealed(b"".join(canonical_json(line) + b"\n" for line in _lines(self)))


_FIELDS = tuple(each.name for each in fields(ManifestEntry))
_KINDS = {"order", "reason", "decision", "segments", "bare"}
"""Fields that identify the kind of a line."""


def read_manifest(data: bytes, *, source: str) -> Manifest:
    """The manifest in `data`; `source` names it in messages."""
    with understood(source):
        text = unsealed(data, source=source).decode()
        heading, *lines = map(json.loads, text.removesuffix("\n").split("\n"))
        if heading["format"] != FORMAT:
            raise BrokenRun(f"{source}: manifest format {heading['format']}, this version reads {FORMAT}")
        if any(_KINDS.isdisjoint(line) for line in lines):
            raise ValueError("a line of an unknown kind")
        return Manifest(
            day=date.fromisoformat(heading["day"]),
            entries=tuple(read_entry(line) for line in lines if "order" in line),
            problems=tuple(_problem(line) for line in lines if "reason" in line),
            replays=tuple(read_replay(line) for line in lines if "decision" in line),
            truncations=tuple(_truncation(line) for line in lines if "segments" in line),
            bare_sources=tuple(BareSource(**line) for line in lines if "bare" in line),
        )


def _lines(manifest: Manifest) -> Iterator[dict[str, Any]]:
    yield {"format": FORMAT, "day": manifest.day.isoformat()}
    yield from map(_entry_line, manifest.entries)
    yield from (asdict(problem) for problem in manifest.problems)
    yield from (asdict(replay) for replay in manifest.replays)
    yield from (asdict(truncation) for truncation in manifest.truncations)
    yield from (asdict(source) for source in manifest.bare_sources)


def _entry_line(entry: ManifestEntry) -> dict[str, Any]:
    line = ((name, getattr(entry, name)) for name in _FIELDS)  # `asdict` takes several times as long
    return {name: value for name, value in line if value or name not in LEFT_OUT_IF_EMPTY}


def written_entry(entry: ManifestEntry) -> str:
    """The entry as a line of a manifest."""
    return canonical_json(_entry_line(entry)).decode()


def read_entry(line: dict[str, Any]) -> ManifestEntry:
    """The entry in a parsed JSON line."""
    line["role"] = _ROLES[line["role"]]
    return ManifestEntry(**line)


def _problem(line: dict[str, Any]) -> StageProblem:
    return StageProblem(**{**line, "reason": SetAside(line["reason"])})


def _truncation(line: dict[str, Any]) -> Truncation:
    pairs = {name: tuple(map(tuple, line[name])) for name in ("epochs", "segments")}
    return Truncation(**{**line, **pairs})


def read_replay(line: dict[str, Any]) -> Replay:
    """The replay in a parsed JSON line."""
    return Replay(**{**line, "offsets": tuple(line["offsets"])})


@dataclass(frozen=True, slots=True, kw_only=True)
class Located:
    """The location of an object's bytes and the version that they must have; empty if immutable."""

    store: ObjectStore
    key: str
    version: str


@dataclass(frozen=True, slots=True)
class StagedObjects:
    """Reads the bytes of manifest entries; can be pickled for Spark workers."""

    settings: Settings

    def locate(self, entry: ManifestEntry) -> Located:
        """The source for a referenced object, the lake for a copied one."""
        if entry.referenced:
            root = self.settings.source(entry.source).root
            store = open_store(root, self.settings.s3)
            return Located(store=store, key=entry.path, version=entry.version)
        lake = open_store(self.settings.lake, self.settings.s3)
        return Located(store=lake, key=object_key(entry.sha256), version="")

    def read(self, entry: ManifestEntry) -> bytes:
        """The whole of a small object."""
        return self.read_range(entry, 0, entry.size)

    def read_range(self, entry: ManifestEntry, start: int, length: int) -> bytes:
        """Up to `length` bytes from `start` on; `ObjectChanged` if a referenced object was replaced."""
        at = self.locate(entry)
        return at.store.read_range(at.key, start, length, version=at.version)

    def local_path(self, entry: ManifestEntry) -> Path | None:
        """The file to map, if the object is one."""
        at = self.locate(entry)
        return at.store.local_path(at.key)


def read_run_manifest(lake: ObjectStore, run_id: str) -> Manifest:
    """The manifest of a run that has been staged."""
    key = step_key(run_id, Step.STAGE, MANIFEST)
    return read_manifest(lake.read(key), source=lake.url_of(key))
