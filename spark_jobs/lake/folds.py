"""Folded state that `resolve` hands to the next run: the table `folds`, and the held state of a partition.

A file of held state has canonical bytes: equal states are equal files. Its magic "WAIT" dates from the name
that the format had first.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from struct import Struct
from typing import Any

import numpy as np
import pyarrow as pa

from spark_jobs.config.canonical import digest_of
from spark_jobs.config.settings import Settings
from spark_jobs.flow import STEPS, Step
from spark_jobs.kafka.topic_partition import TopicPartition
from spark_jobs.kernels.partition_transactions import TRANSACTION
from spark_jobs.kernels.producers import Rows
from spark_jobs.lake.chain import Chain, ChainEntry
from spark_jobs.lake.errors import BrokenState, OutOfTurn
from spark_jobs.lake.layout import state_key, step_key
from spark_jobs.lake.manifest import ManifestEntry, ObjectRole
from spark_jobs.lake.object_store import ObjectStore
from spark_jobs.lake.parquet_file import put_table, read_table
from spark_jobs.lake.run_folder import EMPTY_STATE, OutputFile, RunFolder
from spark_jobs.lake.states import VERSION, WITH_GAPS, get_content, put_content, version_for, without_gaps
from spark_jobs.tables.resolve import RESOLVED_PARTITIONS
from spark_jobs.tables.states import FOLDS, FoldKind

Row = Mapping[str, Any]
"""A row of the table `resolved_partitions`."""

FoldName = tuple[FoldKind, TopicPartition]
Folds = Mapping[FoldName, str]
"""Digest of each folded partition's file."""


def put_folds(folder: RunFolder, folds: Folds) -> OutputFile:
    """Writes the table of `folds` as an output of `resolve`."""
    rows = [
        {"kind": kind.value, "topic": partition.topic, "partition": partition.partition, "digest": digest}
        for (kind, partition), digest in sorted(folds.items())
    ]
    table = FOLDS.cast(pa.Table.from_pylist(rows, schema=FOLDS.schema))
    return put_table(folder.lake, folder.key(Step.RESOLVE), FOLDS.file, table)


def digest_of_folds(folds: Folds) -> str:
    """The state digest that `resolve` reports."""
    return digest_of(
        [[kind.value, *partition, digest] for (kind, partition), digest in sorted(folds.items())]
    )


def folds_before(lake: ObjectStore, chain: Chain, state_in: str) -> dict[FoldName, str]:
    """The folds of the run that ended in `state_in`; none before a first run, or without `resolve`."""
    entry = _run_before(lake, chain, state_in)
    if entry is None or not _has_resolved(entry):
        return {}
    return read_folds(lake, entry.run_id)


def check_resolved(lake: ObjectStore, chain: Chain, state_in: str) -> None:
    """Raises `OutOfTurn` if the run before has not resolved what it admitted."""
    entry = _run_before(lake, chain, state_in)
    if entry is not None and not _has_resolved(entry):
        raise OutOfTurn(
            f"{entry.run_id} ended with {entry.last_step}, so its transactions are not resolved; "
            f"run {entry.day} until {Step.RESOLVE} first"
        )


def run_before(lake: ObjectStore, chain: Chain, state_in: str) -> str:
    """The run that ended in `state_in` and has resolved; empty without one."""
    entry = _run_before(lake, chain, state_in)
    return entry.run_id if entry is not None and _has_resolved(entry) else ""


def _run_before(lake: ObjectStore, chain: Chain, state_in: str) -> ChainEntry | None:
    if state_in == EMPTY_STATE:
        return None
    entry = chain.run_with_state(state_in)
    if entry is None:
        raise BrokenState(f"{lake.url}: no run of the chain ended in the state {state_in}")
    return entry


def _has_resolved(entry: ChainEntry) -> bool:
    return STEPS.index(entry.last_step) >= STEPS.index(Step.RESOLVE)


def read_folds(lake: ObjectStore, run_id: str) -> dict[FoldName, str]:
    """The folds that `resolve` of a run wrote for the next run."""
    columns = read_table(lake, step_key(run_id, Step.RESOLVE, FOLDS.file)).to_pydict()
    partitions = map(TopicPartition, columns["topic"], columns["partition"])
    names = zip(map(FoldKind, columns["kind"]), partitions, strict=True)
    return dict(zip(names, columns["digest"], strict=True))


def has_markers(entries: Sequence[ManifestEntry], before: Row | None, settings: Settings) -> bool:
    """False for a capture without markers, of this run or an earlier one: producers do not send markers."""
    captured = {entry.source for entry in entries if entry.role is ObjectRole.CAPTURE}
    if captured:
        return any(settings.source(name).markers for name in captured)
    return bool(entries) or before is None or bool(before["has_markers"])


def resolved_before(lake: ObjectStore, chain: Chain, state_in: str) -> dict[TopicPartition, Row]:
    """The rows of `resolved_partitions` of the previous run, by partition."""
    run_id = run_before(lake, chain, state_in)
    if not run_id:
        return {}
    rows = read_table(lake, step_key(run_id, Step.RESOLVE, RESOLVED_PARTITIONS.file)).to_pylist()
    return {TopicPartition(row["topic"], row["partition"]): row for row in rows}


MAGIC = b"WAIT"
_PREAMBLE = Struct(">4sh")
_HEADING = Struct(">qbii")

HELD_PART = np.dtype(
    [*((name, TRANSACTION[name]) for name in TRANSACTION.names or ()), ("is_below_published", np.int8)]
)
"""A transaction of the partition; `is_below_published` if its batches are held below the published offset."""


def _stored_without(*names: str) -> np.dtype[Any]:
    kept = (name for name in HELD_PART.names or () if name not in names)
    return np.dtype([(name, HELD_PART[name].newbyteorder(">")) for name in kept])


_STORED = {
    VERSION: _stored_without("began_before", "gap_first_offset", "gap_last_offset"),
    WITH_GAPS: _stored_without("began_before"),
}
STRETCH: np.dtype[Any] = np.dtype([("number", ">i8"), ("rows", ">i4"), ("digest", "V32")])
"""A stretch of held batches, by offset // `STRETCH_OFFSETS`, and the name of its file."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HeldState:
    """One partition; compare by bytes. `transactions` are rows of `HELD_PART`, `stretches` of `STRETCH`."""

    published_offset: int = 0
    has_markers: bool = True
    transactions: Rows = field(default_factory=lambda: np.empty(0, dtype=HELD_PART))
    stretches: Rows = field(default_factory=lambda: np.empty(0, dtype=STRETCH))

    @property
    def held(self) -> tuple[str, ...]:
        """Names of the files of inherited rows, by offset."""
        return tuple(bytes(digest).hex() for digest in self.stretches["digest"])

    @property
    def held_batches(self) -> int:
        return int(self.stretches["rows"].sum())


def write_held(held: HeldState) -> bytes:
    """The file of `held`; its transactions by first offset, then marker."""
    rows = held.transactions
    ordered = rows[np.lexsort((rows["marker_offset"], rows["first_offset"]))]
    version = version_for(rows)
    stored = np.zeros(len(ordered), dtype=_STORED[version])
    for name in stored.dtype.names or ():
        stored[name] = ordered[name]
    heading = _HEADING.pack(held.published_offset, held.has_markers, len(stored), len(held.stretches))
    return b"".join((_PREAMBLE.pack(MAGIC, version), heading, stored.tobytes(), held.stretches.tobytes()))


def read_held(data: bytes, *, source: str = "<bytes>") -> HeldState:
    """The held state in `data`; `source` names it in messages."""
    start = _PREAMBLE.size + _HEADING.size
    if len(data) < start:
        raise BrokenState(f"{source}: {len(data)} bytes are too short for a state of held transactions")
    magic, version = _PREAMBLE.unpack_from(data)
    if magic != MAGIC or version not in _STORED:
        readable = " or ".join(map(str, _STORED))
        raise BrokenState(
            f"{source}: found magic {magic!r}, version {version}; expected {MAGIC!r}, version {readable}"
        )
    published_offset, has_markers, transactions, stretches = _HEADING.unpack_from(data, _PREAMBLE.size)
    kind = _STORED[version]
    end = start + transactions * kind.itemsize
    if len(data) != end + stretches * STRETCH.itemsize:
        raise BrokenState(
            f"{source}: {len(data)} bytes for {transactions} transactions, {stretches} stretches"
        )
    return HeldState(
        published_offset=published_offset,
        has_markers=bool(has_markers),
        transactions=_unpacked(np.frombuffer(data, dtype=kind, count=transactions, offset=start)),
        stretches=np.frombuffer(data, dtype=STRETCH, offset=end).copy(),
    )


def put_held(lake: ObjectStore, held: HeldState) -> str:
    """Stores `held` in the lake; returns the digest that names it."""
    return put_content(lake, write_held(held))


def get_held(lake: ObjectStore, digest: str) -> HeldState:
    """The state of that name; an empty one for the empty name."""
    if not digest:
        return HeldState()
    return read_held(get_content(lake, digest), source=lake.url_of(state_key(digest)))


def _unpacked(stored: Rows) -> Rows:
    rows = np.zeros(len(stored), dtype=HELD_PART)
    for name in stored.dtype.names or ():
        rows[name] = stored[name]
    rows["began_before"] = 1
    return without_gaps(rows, stored)
