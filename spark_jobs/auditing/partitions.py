"""The results of each partition, gathered from the steps' tables for the audit's workers."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from spark_jobs.auditing.accepted_sequences import NEVER
from spark_jobs.auditing.inputs import PartitionInputs, StateDigests
from spark_jobs.config.settings import Settings
from spark_jobs.config.sources import INTERNAL_TOPICS
from spark_jobs.flow import Step
from spark_jobs.protocol.producer_state import AppendOrigin
from spark_jobs.protocol.topic_partition import TopicPartition
from spark_jobs.sources.partitions import has_holes_by_design
from spark_jobs.storage.chain import Chain
from spark_jobs.storage.index_files import read_index_files
from spark_jobs.storage.layout import step_key
from spark_jobs.storage.manifest import Manifest
from spark_jobs.storage.object_store import ObjectStore
from spark_jobs.storage.parquet_file import iter_rows, read_table
from spark_jobs.storage.run_folder import RunFolder
from spark_jobs.storage.staged import read_run_manifest
from spark_jobs.storage.states import STATE_STEPS, read_states, states_before
from spark_jobs.tables.admit import ADMITTED_PARTITIONS, GAPS, KIND_OF, GapStatus
from spark_jobs.tables.materialise import QuarantineKind
from spark_jobs.tables.rebuild import STATE_ORIGINS, StateOrigin
from spark_jobs.tables.resolve import RESOLVED_PARTITIONS
from spark_jobs.tables.states import STATES

UNREADABLE = "unreadable/"

Rows = Mapping[TopicPartition, Mapping[str, Any]]
States = Mapping[TopicPartition, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Accounts:
    """The tables of a run by partition; `earlier` is the `resolved_partitions` of the run before."""

    resolved: Rows
    admitted: Rows
    earlier: Rows
    indexed: Mapping[TopicPartition, int]
    unreadable: Mapping[TopicPartition, Counter[str]]
    replayed: Mapping[TopicPartition, int]
    gaps: Mapping[TopicPartition, Sequence[Mapping[str, Any]]]
    origins: Rows
    handed_on: States
    taken_up: States
    after: States

    @property
    def partitions(self) -> list[TopicPartition]:
        """Every one that any table knows, also those that should be in others, too."""
        return sorted({*self.resolved, *self.admitted, *self.indexed, *self.handed_on, *self.after})


def read_accounts(folder: RunFolder, chain: Chain) -> Accounts:
    """What the run's steps have written down."""
    lake = folder.lake
    run_before, handed_on = states_before(lake, chain, folder.inputs.state_in)
    copies = read_index_files(folder)
    return Accounts(
        resolved=_rows(lake, folder.key(Step.RESOLVE, RESOLVED_PARTITIONS.file)),
        admitted=_rows(lake, folder.key(Step.ADMIT, ADMITTED_PARTITIONS.file)),
        earlier=_rows(lake, step_key(run_before, Step.RESOLVE, RESOLVED_PARTITIONS.file))
        if run_before
        else {},
        indexed={partition: sum(copy.rows for copy in found) for partition, found in copies.items()},
        unreadable=_unreadable(lake, outputs_of(folder, Step.MATERIALISE, UNREADABLE)),
        replayed=_replayed(read_run_manifest(lake, folder.run_id)),
        gaps=_gaps(lake, folder.key(Step.ADMIT, GAPS.file)),
        origins=_rows(lake, folder.key(Step.REBUILD, STATE_ORIGINS.file)),
        handed_on=handed_on,
        taken_up=read_states(lake, folder.run_id, Step.REBUILD),
        after=_states_after(folder),
    )


def partition_inputs(folder: RunFolder, accounts: Accounts, settings: Settings) -> list[PartitionInputs]:
    """One per partition, in order."""
    return [_inputs(folder, each, accounts, settings) for each in accounts.partitions]


def outputs_of(folder: RunFolder, step: Step, prefix: str) -> tuple[str, ...]:
    """Keys of the files that a finished step wrote below `prefix`."""
    done = folder.done(step)
    paths = [output.path for output in done.outputs] if done is not None else []
    return tuple(folder.key(step, path) for path in paths if path.startswith(prefix))


def _inputs(
    folder: RunFolder, partition: TopicPartition, accounts: Accounts, settings: Settings
) -> PartitionInputs:
    resolved, admitted = accounts.resolved.get(partition, {}), accounts.admitted.get(partition, {})
    earlier = accounts.earlier.get(partition, {})
    left_out = accounts.unreadable.get(partition, Counter())
    is_internal = partition.topic in INTERNAL_TOPICS
    return PartitionInputs(
        partition=partition,
        indexed=accounts.indexed.get(partition, 0),
        start_offset=admitted.get("start_offset", 0),
        # Kafka's own topics have no table: nothing of them is published.
        first_offset=0 if is_internal else resolved.get("first_offset", 0),
        end_offset=0 if is_internal else resolved.get("end_offset", 0),
        published_before=earlier.get("end_offset", 0),
        batches=_key(folder, Step.ADMIT, admitted.get("batches")),
        outcomes=_key(folder, Step.RESOLVE, resolved.get("outcomes")),
        held=tuple(resolved.get("held", ())),
        late=() if is_internal else tuple(resolved.get("late", ())),
        **_gap_inputs(accounts.gaps.get(partition, ())),
        cleaned_offset=admitted.get("cleaned_offset", 0),
        is_compacted=has_holes_by_design(partition.topic, settings),
        forgotten_before=_forgotten_before(folder, settings)
        if admitted.get("kind") == KIND_OF[AppendOrigin.REPLICATION]
        else NEVER,
        unreadable_records=left_out[QuarantineKind.CORRUPT],
        unfit_records=left_out[QuarantineKind.UNFIT],
        replayed_records=accounts.replayed.get(partition, 0),
        states=StateDigests(
            handed_on=accounts.handed_on.get(partition, ""),
            taken_up=accounts.taken_up.get(partition, ""),
            after=accounts.after.get(partition, ""),
            admitted_end=admitted.get("end_offset"),
            is_behind_gap=accounts.origins.get(partition, {}).get("origin") == StateOrigin.SNAPSHOT,
        ),
        last_stable_before=earlier.get("last_stable_offset", 0),
        last_stable_offset=resolved.get("last_stable_offset", 0),
    )


PASSED = (GapStatus.DELETED, GapStatus.PUBLISHED_PAST)


def _gap_inputs(gaps: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What the table `gaps` says of a partition."""
    is_open = [row for row in gaps if row["status"] == GapStatus.OPEN]
    passed = [row for row in gaps if row["status"] in PASSED]
    return {
        "passed_gaps": tuple((row["first_offset"], row["last_offset"]) for row in passed),
        "gap_offsets": sum(row["last_offset"] - row["first_offset"] + 1 for row in is_open),
        "behind_gaps": sum(row["held_batches"] for row in is_open),
    }


def _gaps(lake: ObjectStore, key: str) -> Mapping[TopicPartition, Sequence[Mapping[str, Any]]]:
    found: dict[TopicPartition, list[Mapping[str, Any]]] = defaultdict(list)
    for row in read_table(lake, key).to_pylist() if lake.stat(key) is not None else ():
        found[TopicPartition(row["topic"], row["partition"])].append(row)
    return found


def _forgotten_before(folder: RunFolder, settings: Settings) -> int:
    """Producers that were idle since then may have been forgotten by the time the log was copied."""
    return folder.inputs.logical_time_ms - settings.kafka.producer_id_expiration_ms


def _key(folder: RunFolder, step: Step, path: str | None) -> str:
    return folder.key(step, path) if path else ""


def _rows(lake: ObjectStore, key: str) -> Rows:
    if lake.stat(key) is None:
        return {}
    rows = read_table(lake, key).to_pylist()
    return {TopicPartition(row["topic"], row["partition"]): row for row in rows}


def _states_after(folder: RunFolder) -> States:
    for step in STATE_STEPS:
        if folder.lake.stat(folder.key(step, STATES.file)) is not None:
            return read_states(folder.lake, folder.run_id, step)
    return {}


def _replayed(manifest: Manifest) -> Mapping[TopicPartition, int]:
    """Replayed records of earlier runs."""
    found: dict[TopicPartition, int] = defaultdict(int)
    for replay in manifest.replays:
        found[TopicPartition(replay.topic, replay.partition)] += replay.records
    return found


def _unreadable(lake: ObjectStore, keys: Iterable[str]) -> Mapping[TopicPartition, Counter[str]]:
    """Records of committed batches that are not published, by kind: undecodable, or unfit."""
    found: dict[TopicPartition, Counter[str]] = defaultdict(Counter)
    names = ["topic", "partition", "kind"]
    for key in keys:
        for part in iter_rows(lake, key, columns=[*names, "records"]):
            sums = pa.table(part).group_by(names).aggregate([("records", "sum")])
            for row in sums.to_pylist():
                found[TopicPartition(row["topic"], row["partition"])][row["kind"]] += row["records_sum"]
    return found
