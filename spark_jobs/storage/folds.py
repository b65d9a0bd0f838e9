"""The files that `resolve` leaves for the next run, and where that run finds them."""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from spark_jobs.config.canonical import digest_of
from spark_jobs.config.settings import Settings
from spark_jobs.flow import STEPS, Step
from spark_jobs.protocol.topic_partition import TopicPartition
from spark_jobs.storage.chain import Chain, ChainEntry
from spark_jobs.storage.errors import BrokenState, OutOfTurn
from spark_jobs.storage.layout import step_key
from spark_jobs.storage.manifest import ManifestEntry, ObjectRole
from spark_jobs.storage.object_store import ObjectStore
from spark_jobs.storage.parquet_file import put_table, read_table
from spark_jobs.storage.run_folder import EMPTY_STATE, OutputFile, RunFolder
from spark_jobs.tables.states import FOLDS, FoldKind

FOLD_TABLE = "folds.parquet"
PARTITIONS = "partitions.parquet"

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
    return put_table(folder.lake, folder.key(Step.RESOLVE), FOLD_TABLE, table)


def digest_of_folds(folds: Folds) -> str:
    """What `resolve` reports as its state."""
    return digest_of(
        [[kind.value, *partition, digest] for (kind, partition), digest in sorted(folds.items())]
    )


def folds_before(lake: ObjectStore, chain: Chain, state_in: str) -> dict[FoldName, str]:
    """What the run that ended in `state_in` left: nothing before a first run, or without `resolve`."""
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
    """What `resolve` of a run left for the next."""
    columns = read_table(lake, step_key(run_id, Step.RESOLVE, FOLD_TABLE)).to_pydict()
    partitions = map(TopicPartition, columns["topic"], columns["partition"])
    names = zip(map(FoldKind, columns["kind"]), partitions, strict=True)
    return dict(zip(names, columns["digest"], strict=True))


def has_markers(entries: Sequence[ManifestEntry], before: Row | None, settings: Settings) -> bool:
    """False for a capture of producers alone, this run's or an earlier one's: no producer sends markers."""
    captured = {entry.source for entry in entries if entry.role is ObjectRole.CAPTURE}
    if captured:
        return any(settings.source(name).markers for name in captured)
    return bool(entries) or before is None or bool(before["has_markers"])


def resolved_before(lake: ObjectStore, chain: Chain, state_in: str) -> dict[TopicPartition, Row]:
    """The rows of the partitions as `resolve` of the run before left them."""
    run_id = run_before(lake, chain, state_in)
    if not run_id:
        return {}
    rows = read_table(lake, step_key(run_id, Step.RESOLVE, PARTITIONS)).to_pylist()
    return {TopicPartition(row["topic"], row["partition"]): row for row in rows}
