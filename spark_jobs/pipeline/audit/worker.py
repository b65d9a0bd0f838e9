"""What a Spark task of `audit` does: it counts the facts of some partitions, a row for each."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.kafka.producers.verdict import Verdict, VerdictGroup
from spark_jobs.kernels.record_rows import RecordColumns, count_within, look_at
from spark_jobs.lake.errors import BrokenState, ObjectMissing
from spark_jobs.lake.gap_file import get_gaps
from spark_jobs.lake.inherited_rows import get_inherited
from spark_jobs.lake.object_store import ObjectStore
from spark_jobs.lake.parquet_file import iter_rows
from spark_jobs.lake.states import PartitionState, get_state
from spark_jobs.pipeline.audit.columns import (
    READ,
    AcceptedBatches,
    Int64s,
    TransactionOffsets,
    accepted_of,
    held_of,
    is_counted,
    read_outcomes,
)
from spark_jobs.pipeline.audit.job import AuditTask, PartitionInputs, RecordChecks, StateDigests
from spark_jobs.pipeline.audit.keys import count_keys, hash_keys, iter_records
from spark_jobs.pipeline.audit.partitioners import KeyHashes, is_established
from spark_jobs.pipeline.audit.sequences import AcceptedSequences, SequenceSpans, spans_of

# Verdicts.


class VerdictCounts:
    """Counts the verdicts of one partition, part by part."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def add(self, batch: pa.RecordBatch) -> None:
        """A part of `batches`."""
        found = pc.value_counts(batch.filter(is_counted(batch)).column("verdict"))
        counts = np.asarray(found.field("counts")).tolist()
        self._counts.update(dict(zip(map(str, found.field("values")), counts, strict=True)))

    def facts(self) -> Mapping[str, int]:
        """Counts by verdict; unknown verdicts do not count."""
        known = {verdict: self._counts[verdict.value] for verdict in Verdict}
        groups = dict.fromkeys(VerdictGroup, 0)
        for verdict, count in known.items():
            groups[verdict.group] += count
        return {
            "verdicts": sum(known.values()),
            "out_of_order": known[Verdict.OUT_OF_ORDER],
            **{group.value: count for group, count in groups.items()},
            "duplicate": known[Verdict.DUPLICATE],  # no producer sent an overlap twice
            "overlap": known[Verdict.OVERLAP],
        }


# Offsets of accepted batches: ascending, and without holes that were not reported.


class AcceptedOffsets:
    """Follows the log of one partition from the end of the previous run."""

    def __init__(self, start_offset: int, gaps: Int64s, *, cleaned_offset: int = 0) -> None:
        """`gaps` are rows of first and last offset that were reported as missing.

        Below `cleaned_offset` a broker's cleaner was, and left holes.
        """
        self._next, self._cleaned = start_offset, cleaned_offset
        self._unexplained = -int(self._beyond(gaps[:, 0], gaps[:, 1] + 1).sum())
        self._disordered = 0

    def add(self, rows: AcceptedBatches) -> None:
        """Accepted batches in the order of the table."""
        ends = np.maximum.accumulate(np.append(self._next, rows.last_offset + 1))
        self._disordered += int(np.count_nonzero(rows.offset < ends[:-1]))
        # A legacy wrapper is at its last offset, so what seems to be missing before it is inside.
        holes = self._beyond(ends[:-1], rows.offset)
        self._unexplained += int(holes[~rows.is_wrapper].sum())
        self._next = int(ends[-1])

    def _beyond(self, first: Int64s, end: Int64s) -> Int64s:
        """How many offsets of each range no cleaner explains."""
        missing: Int64s = np.maximum(end - np.maximum(first, self._cleaned), 0)
        return missing

    def facts(self, *, is_compacted: bool, end_offset: int = 0) -> Mapping[str, int]:
        """A gap that was reported though nothing is missing counts, too; the log ends at `end_offset`."""
        left = int(self._beyond(np.array([self._next]), np.array([end_offset]))[0])
        missing = 0 if is_compacted else abs(self._unexplained + left)
        return {"disordered_batches": self._disordered, "missing_offsets": missing}


# Records to publish, as counted by the headers of batches.


class CommittedRecords:
    """Counts the records of committed batches between the offsets that the run publishes."""

    def __init__(self, inputs: PartitionInputs, outcomes: TransactionOffsets) -> None:
        self._end, self._first, self._outcomes = inputs.end_offset, inputs.first_offset, outcomes
        self._late = np.array(inputs.late, dtype=np.int64)
        self._records = self._uncertain = self._uncounted = 0

    def add(self, rows: AcceptedBatches) -> None:
        """Accepted batches."""
        first = np.where(np.isin(rows.txn_first_offset, self._late), 0, self._first)
        committed = self._outcomes.are_committed(rows.txn_first_offset)
        chosen = rows.is_data & committed & (rows.last_offset >= first) & (rows.offset < self._end)
        count, is_cut = rows.record_count[chosen], (rows.offset < first)[chosen]
        self._records += int(count[count > 0].sum())
        self._uncertain += int(count[is_cut & (count > 0)].sum())
        self._uncounted += int(np.count_nonzero(count < 0))

    def facts(self) -> Mapping[str, int]:
        """Records in all, those that may be before the log's start, and batches without a count."""
        return {
            "committed_records": self._records,
            "uncertain_records": self._uncertain,
            "uncounted_batches": self._uncounted,
        }


# The chain of states.


def count_state_breaks(lake: ObjectStore, inputs: PartitionInputs) -> int:
    """Differences that no rule explains, and state files that cannot be read.

    Between two runs producers may expire, and a broker may have deleted records, so that its log
    begins later; if that is behind a gap, a snapshot has the transactions that are open there. Nothing else
    may change, and nothing is published twice.
    """
    repeats = inputs.first_offset < min(inputs.published_before, inputs.end_offset)
    states = inputs.states
    if states.previous == states.at_start == states.after:
        return int(repeats)
    try:
        return int(repeats) + sum(_breaks(lake, states))
    except (BrokenState, ObjectMissing):
        return int(repeats) + 1


def _breaks(lake: ObjectStore, states: StateDigests) -> Iterator[bool]:
    yield bool(states.previous) and not states.at_start
    yield not states.after
    if states.previous and states.at_start and states.previous != states.at_start:
        previous, at_start = _get(lake, states.previous), _get(lake, states.at_start)
        yield _position(previous) != _position(at_start)
        yield not states.is_behind_gap and _opened(previous) != _opened(at_start)
        yield at_start.log_start_offset < previous.log_start_offset
        yield previous.topic_id not in ("", at_start.topic_id)
    if states.at_start and states.after:
        before, after = _get(lake, states.at_start), _get(lake, states.after)
        yield after.end_offset < before.end_offset
        yield after.topic_id != before.topic_id
        yield states.admitted_end is not None and after.end_offset != states.admitted_end


def _get(lake: ObjectStore, digest: str) -> PartitionState:
    """The state without producers: they may change, which other checks cover."""
    return get_state(lake, digest, with_producers=False)


def _position(state: PartitionState) -> tuple[object, ...]:
    return (
        state.end_offset,
        state.published_offset,
        state.leader_epochs,
        state.parked,
        state.gaps,
    )


def _opened(state: PartitionState) -> bytes:
    return state.open_transactions.tobytes()


# Rows of one partition, counted part by part.


class RecordFacts:
    """Counts facts of one partition's rows; holds only its producers' sequences in memory."""

    def __init__(self, outcomes: TransactionOffsets, bounds: RecordChecks) -> None:
        self._uncommitted, self._bounds = outcomes.uncommitted(), bounds
        self._spans = SequenceSpans()
        self._last_offset = -1
        self._rows = self._disordered = self._strange = self._unwanted = 0

    def add(self, rows: RecordColumns) -> None:
        """The next rows of the partition."""
        if not rows.offset.size:
            return
        self._rows += rows.offset.size
        bounds = self._bounds
        seen = look_at(rows, self._last_offset, earliest_ms=bounds.earliest_ms, latest_ms=bounds.latest_ms)
        self._disordered += seen.disordered
        self._last_offset = seen.highest
        self._strange += seen.strange
        spans = spans_of(rows, seen)
        self._unwanted += count_within(spans.offsets, self._uncommitted)
        self._spans.add(spans)

    def facts(self) -> Mapping[str, int]:
        return {
            "rows": self._rows,
            "disordered_rows": self._disordered,
            "repeated_sequences": self._spans.repeated,
            "uncommitted_rows": self._unwanted,
            "strange_timestamps": self._strange,
        }


# The task.

Counts = Mapping[str, int]
"""A row of `partition_facts`, without its key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedFacts:
    """The facts of each of the task's partitions, in their order; `keys` if partitioners have to be judged.

    That is the case if some keys are not where the established partitioner puts them, or if none is
    established yet: then a sample is enough.
    """

    facts: tuple[Counts, ...]
    keys: KeyHashes | None


def count_facts(task: AuditTask) -> CountedFacts:
    """All that is counted of some partitions."""
    outcomes = {each.partition.partition: read_outcomes(task.lake, each.outcomes) for each in task.inputs}
    records, files = _record_facts(task, outcomes)
    keys = hash_keys(replace(task, records=files))
    facts = tuple(_facts(task, outcomes, records, keys))
    if not is_established(task.fits):
        return CountedFacts(facts=facts, keys=keys.sample())
    return CountedFacts(facts=facts, keys=keys if any(each["keys_elsewhere"] for each in facts) else None)


def _facts(
    task: AuditTask,
    outcomes: Mapping[int, TransactionOffsets],
    records: Mapping[int, Counts],
    keys: KeyHashes,
) -> Iterator[Counts]:
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


def _batch_facts(lake: ObjectStore, inputs: PartitionInputs, outcomes: TransactionOffsets) -> Counts:
    state = get_state(lake, inputs.states.at_start) if inputs.states.at_start else PartitionState()
    inherited = get_gaps(lake, state.gaps).held_batches if inputs.batches else 0
    gaps = np.array(inputs.passed_gaps, dtype=np.int64).reshape(-1, 2)
    verdicts, committed = VerdictCounts(), CommittedRecords(inputs, outcomes)
    offsets = AcceptedOffsets(inputs.start_offset, gaps, cleaned_offset=inputs.cleaned_offset)
    sequences = AcceptedSequences(
        state.producers,
        gaps,
        expired_before=inputs.expired_before,
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
    task: AuditTask, outcomes: Mapping[int, TransactionOffsets]
) -> tuple[dict[int, Counts], tuple[str, ...]]:
    """Facts by partition, and the files with the run's own records."""
    current, files = _fold_records(task, task.records, outcomes)
    again, _ = _fold_records(task, task.replayed, outcomes)
    facts: dict[int, Counts] = {
        partition: {name: count + again[partition][name] for name, count in found.items()}
        for partition, found in current.items()
    }
    return facts, files


def _fold_records(
    task: AuditTask, files: Sequence[str], outcomes: Mapping[int, TransactionOffsets]
) -> tuple[dict[int, Counts], tuple[str, ...]]:
    folds = {partition: RecordFacts(each, task.bounds) for partition, each in outcomes.items()}
    holding = dict[str, None]()
    for key in files:
        for partition, rows in iter_records(task.lake, key, min(folds), max(folds)):
            if partition in folds:
                folds[partition].add(rows)
                holding[key] = None
    return {partition: fold.facts() for partition, fold in folds.items()}, tuple(holding)
