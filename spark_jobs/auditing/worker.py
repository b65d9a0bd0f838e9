"""What runs in a Spark task of `audit`: files of some partitions in, a row of numbers for each out."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from spark_jobs.auditing.accepted_offsets import AcceptedOffsets
from spark_jobs.auditing.accepted_sequences import AcceptedSequences
from spark_jobs.auditing.batch_columns import READ, accepted_of, held_of
from spark_jobs.auditing.committed_records import CommittedRecords
from spark_jobs.auditing.inputs import AuditTask, PartitionInputs
from spark_jobs.auditing.key_places import count_keys, hash_keys
from spark_jobs.auditing.outcomes import Outcomes, read_outcomes
from spark_jobs.auditing.partitioners import KeyHashes, is_established
from spark_jobs.auditing.record_facts import RecordFacts
from spark_jobs.auditing.record_rows import iter_records
from spark_jobs.auditing.state_breaks import count_state_breaks
from spark_jobs.auditing.verdict_counts import VerdictCounts
from spark_jobs.storage.gap_file import get_gaps
from spark_jobs.storage.inherited_rows import get_inherited
from spark_jobs.storage.object_store import ObjectStore
from spark_jobs.storage.parquet_file import iter_rows
from spark_jobs.storage.state_file import PartitionState, get_state

Facts = Mapping[str, int]
"""A row of `partition_facts`, without its key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """The facts of each of the task's partitions, in their order; its keys, if they have to be looked at.

    Some are elsewhere than what is established says, or nothing is established yet: then a part will do.
    """

    facts: tuple[Facts, ...]
    keys: KeyHashes | None


def count_facts(task: AuditTask) -> Counted:
    """All that is counted of some partitions."""
    outcomes = {each.partition.partition: read_outcomes(task.lake, each.outcomes) for each in task.inputs}
    records, files = _record_facts(task, outcomes)
    keys = hash_keys(replace(task, records=files))
    facts = tuple(_facts(task, outcomes, records, keys))
    if not is_established(task.fits):
        return Counted(facts=facts, keys=keys.sample())
    return Counted(facts=facts, keys=keys if any(each["keys_elsewhere"] for each in facts) else None)


def _facts(
    task: AuditTask, outcomes: Mapping[int, Outcomes], records: Mapping[int, Facts], keys: KeyHashes
) -> Iterator[Facts]:
    yield from (
        {
            **_batch_facts(task.lake, each, outcomes[each.partition.partition]),
            **records[each.partition.partition],
            **count_keys(keys, each.partition.partition, task.fits),
            "unreadable_records": each.unreadable_records,
            "unfit_records": each.unfit_records,
            "replayed_records": each.replayed_records,
            "torn_transactions": outcomes[each.partition.partition].torn_at(each.end_offset)
            if task.whole_transactions
            else 0,
            "state_breaks": count_state_breaks(task.lake, each),
            "last_stable_before": each.last_stable_before,
            "last_stable_offset": each.last_stable_offset,
        }
        for each in task.inputs
    )


def _batch_facts(lake: ObjectStore, inputs: PartitionInputs, outcomes: Outcomes) -> Facts:
    state = get_state(lake, inputs.states.taken_up) if inputs.states.taken_up else PartitionState()
    inherited = get_gaps(lake, state.gaps).held_batches if inputs.batches else 0
    gaps = np.array(inputs.passed_gaps, dtype=np.int64).reshape(-1, 2)
    verdicts, committed = VerdictCounts(), CommittedRecords(inputs, outcomes)
    offsets = AcceptedOffsets(inputs.start_offset, gaps, cleaned_offset=inputs.cleaned_offset)
    sequences = AcceptedSequences(
        state.producers,
        gaps,
        forgotten_before=inputs.forgotten_before,
        cleaned_offset=inputs.cleaned_offset,
    )
    for digest in inputs.held:
        committed.add(held_of(get_inherited(lake, digest).rows))
    for part in iter_rows(lake, inputs.batches, columns=READ) if inputs.batches else ():
        verdicts.add(part)
        accepted = accepted_of(part)
        offsets.add(accepted)
        sequences.add(accepted)
        committed.add(accepted)
    return {
        "batches_in": inputs.indexed + len(get_inherited(lake, state.parked).rows) + inherited,
        **verdicts.facts(),
        **offsets.facts(end_offset=inputs.states.admitted_end or 0, is_compacted=inputs.is_compacted),
        "sequence_gaps": 0 if inputs.is_compacted else sequences.broken,
        "gap_offsets": inputs.gap_offsets,
        "behind_gaps": inputs.behind_gaps,
        **committed.facts(),
    }


def _record_facts(
    task: AuditTask, outcomes: Mapping[int, Outcomes]
) -> tuple[dict[int, Facts], tuple[str, ...]]:
    """Facts by partition, and the files with the run's own records."""
    current, files = _fold_records(task, task.records, outcomes)
    again, _ = _fold_records(task, task.replayed, outcomes)
    facts: dict[int, Facts] = {
        partition: {name: count + again[partition][name] for name, count in found.items()}
        for partition, found in current.items()
    }
    return facts, files


def _fold_records(
    task: AuditTask, files: Sequence[str], outcomes: Mapping[int, Outcomes]
) -> tuple[dict[int, Facts], tuple[str, ...]]:
    folds = {partition: RecordFacts(each, task.bounds) for partition, each in outcomes.items()}
    holding = dict[str, None]()
    for key in files:
        for partition, rows in iter_records(task.lake, key, min(folds), max(folds)):
            if partition in folds:
                folds[partition].add(rows)
                holding[key] = None
    return {partition: fold.facts() for partition, fold in folds.items()}, tuple(holding)
