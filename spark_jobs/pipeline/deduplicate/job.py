"""What the Spark tasks of `deduplicate` receive and return, and the rows that meet in its shuffles."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from hashlib import sha256
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_jobs.config.dedup import IdRule
from spark_jobs.config.settings import Settings
from spark_jobs.lake.id_index import IdFile, IdIndex
from spark_jobs.lake.object_store import ObjectStore
from spark_jobs.lake.run_folder import OutputFile
from spark_jobs.tables.deduplicate import FIRST_SCHEMA

LABEL_COLUMNS = ("partition", "producer_id", "producer_epoch", "transactional_id")

_OCCURRENCES: "list[pa.Field[Any]]" = [
    pa.field("hash", pa.int64()),
    pa.field("offset", pa.int64()),
    pa.field("timestamp", pa.int64()),
    pa.field("label", pa.int32()),
    pa.field("count", pa.int32()),
    pa.field("row", pa.int32()),
    pa.field("id", pa.binary()),
]
OCCURRENCES = pa.schema(_OCCURRENCES)
"""The first record with an id in a part of a file: its address, its label (a row of LABELS), its row within
the part, and how many records of the part have the id."""

LABELS = pa.schema([FIRST_SCHEMA.field(name) for name in LABEL_COLUMNS])
"""What records of a part share with many others: each combination is sent once for each bucket."""

_PACKED: "list[pa.Field[Any]]" = [
    pa.field("bucket", pa.int32()),
    pa.field("day", pa.int32()),
    pa.field("file", pa.int32()),
    pa.field("part", pa.int32()),
    pa.field("topic", pa.string()),
    pa.field("labels", pa.binary()),
    pa.field("rows", pa.binary()),
]
PACKED = pa.schema(_PACKED)
"""Occurrences of a part of a file in a bucket on their way through Spark, with their run date and the file's
place among the run's files. Labels and rows are one Arrow record batch each: one row for the JVM."""

_SEEN: "list[pa.Field[Any]]" = [
    *(pa.field(name, pa.int32()) for name in ("day", "file", "part", "count", "row")),
    *FIRST_SCHEMA,
]
SEEN = pa.schema(_SEEN)
"""Occurrences in a bucket, with their labels and what their part has in common as plain columns."""

FIRST_COLUMNS = (
    "topic",
    "partition",
    "offset",
    "timestamp",
    "producer_id",
    "producer_epoch",
    "transactional_id",
)
"""What is known of a first record, besides its run date."""

_FOUND: "list[pa.Field[Any]]" = [
    pa.field("place", pa.int64()),
    pa.field("row", pa.int32()),
    pa.field("count", pa.int32()),
    pa.field("id", pa.binary()),
    pa.field("first_day", pa.int32()),
    *[FIRST_SCHEMA.field(name).with_name(f"first_{name}") for name in FIRST_COLUMNS],
]
FOUND = pa.schema(_FOUND)
"""An id of which a part of a file has duplicates: the place of the part, the row of the id's first record in
the part, how many records of the part have the id, and the first record of all."""

PART_BITS = 32


def places_in(files: npt.NDArray[np.int32], parts: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
    """Parts of files as one number each."""
    return files.astype(np.int64) << PART_BITS | parts


def part_of(place: int) -> tuple[int, int]:
    """The file and the part at a place."""
    return place >> PART_BITS, place & ((1 << PART_BITS) - 1)


NO_FILE = -1
"""In place of a file's number: the record is published already."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFile:
    """A file of a topic's table: its key in the lake, its path below its step's folder, its run date."""

    topic: str
    key: str
    path: str
    rows: int
    bytes: int
    day: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FileTask:
    """One file whose ids are read; `number` is its place among those of the run."""

    file: RecordFile
    number: int
    source: str | tuple[str, ...]
    hash_key: bytes
    buckets: int
    lake: ObjectStore


@dataclass(frozen=True, slots=True, kw_only=True)
class IdCounts:
    """Records of a file by partition: all, those without an id, those without a usable one."""

    topic: str
    records: Counter[int] = field(default_factory=Counter)
    null_ids: Counter[int] = field(default_factory=Counter)
    unusable_ids: Counter[int] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketContext:
    """What every bucket needs; `folder` is the key of a folder for files that meet in the next task.

    `writes_firsts` and `writes_hashes` are whether the new ids of a bucket are expected to be one file of the
    index each, so that no other task has to write them.
    """

    rule: IdRule
    index: IdIndex
    buckets: int
    folder: str
    lake: ObjectStore
    writes_firsts: bool = False
    writes_hashes: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketResult:
    """How many ids of a bucket are first seen, by run date, and how many of its records are duplicates.

    `new` are the files of the index that the bucket has written. `found_bytes` is the size of the list of
    duplicates, 0 if there is none and so no file.
    """

    bucket: int
    firsts: Mapping[int, int]
    new: "NewPieces"
    duplicates: int
    found_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPieces:
    """Files of the index with the new ids of a bucket, where it has written them."""

    firsts: IdFile | None = None
    hashes: IdFile | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewIds:
    """New first records of one run date: keys of files with their buckets, ascending."""

    day: int
    files: tuple[tuple[int, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PieceTask:
    """One file of the index: a `number` of `count`, made of files of earlier runs and of new ids, by date.

    It names only files with hashes of its range, since an index of billions of ids has thousands.
    """

    number: int
    count: int
    pieces: tuple[IdFile, ...]
    new: tuple[NewIds, ...]
    lake: ObjectStore


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundPart:
    """The file that lists the duplicates of a part of a file of records."""

    place: int
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteTask:
    """A file with duplicates, and for each part with some their list, or the key of a file with it.

    `folder` is the step's.
    """

    file: RecordFile
    found: Mapping[int, pa.Table | str]
    source: str | tuple[str, ...]
    run_date: date
    folder: str
    settings: Settings
    lake: ObjectStore


ProducerKey = tuple[int, str | None]
"""Producer id and transactional id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewritten:
    """A file without its duplicates, None if no row is left, and the file of its duplicates."""

    file: RecordFile
    kept: OutputFile | None
    duplicates: OutputFile
    by_partition: Counter[int]
    by_producer: Counter[tuple[ProducerKey, str]]

    @property
    def count(self) -> int:
        return self.by_partition.total()


def hash_key(rule: IdRule) -> bytes:
    """The key of the rule's hashes."""
    return sha256(rule.digest.encode()).digest()[:16]
