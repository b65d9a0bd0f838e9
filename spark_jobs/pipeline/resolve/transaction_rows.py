"""Resolved transactions as rows, on their way from the join to the tables."""

from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.kafka.coordinator.timeline import CoordinatorTransaction
from spark_jobs.kafka.formats.transaction_state import TransactionState
from spark_jobs.kafka.topic_partition import TopicPartition
from spark_jobs.kafka.transactions.hanging import CopyReach
from spark_jobs.kafka.transactions.outcome import Evidence, Outcome, ResolvedTransaction
from spark_jobs.kafka.transactions.resolve import DecidedOutcome
from spark_jobs.kernels.producers import Rows
from spark_jobs.pipeline.coordinator_logs.timelines import VALUES_AT_A_TIME
from spark_jobs.pipeline.resolve.parts import PART_FIELDS, Flags, GroupedParts, Numbers, part_columns
from spark_jobs.tables.resolve import TRANSACTIONS

OUTCOME_NAMES = tuple(Outcome)
CODE_OF = {outcome: code for code, outcome in enumerate(OUTCOME_NAMES)}
COMMITTED, ABORTED = CODE_OF[Outcome.COMMITTED], CODE_OF[Outcome.ABORTED]
NONE = -1
_UNKNOWN = {Evidence.NO_COORDINATOR_LOG, Evidence.SEVERAL_FIT, Evidence.END_NOT_RECORDED}
_LABELS = {state: state.label for state in TransactionState}

JOINED_PARTS = pa.schema([pa.field("transaction", pa.int32(), nullable=False), *PART_FIELDS])
"""Parts with the number of their transaction, which counts in the file beside."""

CONCLUDED_LATER = ("published", "held_back", "abort_commands")
"""Columns of `transactions` that depend on how far partitions are published."""
JOINED_TRANSACTIONS = pa.schema(
    [
        *(each for each in TRANSACTIONS.schema if each.name not in CONCLUDED_LATER),
        pa.field("outcome_code", pa.int8(), nullable=False),
        pa.field("timed_out", pa.bool_(), nullable=False),
        pa.field("is_behind", pa.bool_(), nullable=False),
        pa.field("is_unknowable", pa.bool_(), nullable=False),
        pa.field("set_aside", pa.bool_(), nullable=False),
        pa.field("is_news", pa.bool_(), nullable=False),
        pa.field("is_ended", pa.bool_(), nullable=False),
        pa.field("coordinator_partition", pa.int32(), nullable=False),
        pa.field("first_record_offset", pa.int64(), nullable=False),
    ]
)
"""`is_ended` if every marker that is to come has come, as far as the logs show.

`is_behind` if the coordinator's copy is older than the data, so that it decides nothing; `is_unknowable` if
data of it was captured without markers, and no log shows its outcome.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """What was resolved of a bucket: keys of its files, and where undecided transactions begin.

    `undecided` is by partition number the start of the oldest one, the partition's end without any.
    """

    parts: str
    transactions: str
    undecided: npt.NDArray[np.int64]


class Origin(NamedTuple):
    """Which partition of `__transaction_state` has the transaction, and whether in records of this run."""

    coordinator_partition: int = NONE
    is_news: bool = False


NOWHERE = Origin()
"""Of a transaction that no coordinator's log has."""

Columns = dict[str, Any]
Missing = tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DecidedOutcomes:
    """Each decision once, and of each transaction the place of its own among them."""

    distinct: tuple[DecidedOutcome, ...]
    places: Numbers

    def column(
        self, of: Callable[[Outcome, tuple[Evidence, ...]], Any], kind: pa.DataType
    ) -> "pa.Array[Any]":
        """Of each transaction what follows from its decision."""
        return pa.array([of(*decision) for decision in self.distinct], kind).take(self.places)

    @property
    def is_final(self) -> Flags:
        """Of each transaction, whether a marker or a coordinator decided it, with nothing missing."""
        found: Flags = self.column(_is_final, pa.bool_()).to_numpy(zero_copy_only=False)
        return found


def decisions_of(transactions: Iterable[ResolvedTransaction]) -> DecidedOutcomes:
    """The decisions on `transactions`."""
    seen: dict[DecidedOutcome, int] = {}
    places = [seen.setdefault((each.outcome, each.evidence), len(seen)) for each in transactions]
    return DecidedOutcomes(distinct=tuple(seen), places=np.array(places, dtype=np.int32))


def _is_final(outcome: Outcome, evidence: tuple[Evidence, ...]) -> bool:
    return outcome.is_decided and Evidence.TIMEOUT not in evidence and Evidence.GAP not in evidence


MARKER_WAIT_MS = 7 * 86_400_000
"""How long to wait for a missing marker; a coordinator drops ids after that time (facts §3.1)."""
DATA_WAIT_MS = 86_400_000
"""How long to wait for data of partitions that are not known, or whose markers are not copied."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionWait:
    """`now` is the run's time, `marked` is by known partition whether it has markers."""

    now: int
    marked: Mapping[TopicPartition, bool]

    def is_over(
        self, coordinator: CoordinatorTransaction | None, missing: tuple[TopicPartition, ...]
    ) -> bool:
        """Whether nothing more is to come by its coordinator's log, if it is in one at all."""
        if coordinator is None:
            return True
        waited = self.now - coordinator.last_update_timestamp_ms
        return coordinator.state.is_complete and waited >= self._limit(coordinator, missing)

    def _limit(self, coordinator: CoordinatorTransaction, missing: tuple[TopicPartition, ...]) -> int:
        """How long more of a completed transaction may come, in ms, on partitions where nothing has yet."""
        if coordinator.topic_partitions is None:
            return MARKER_WAIT_MS
        if any(self.marked.get(partition, False) for partition in missing):
            return MARKER_WAIT_MS
        return DATA_WAIT_MS if missing else 0


_WORDS = {
    Evidence.MARKER: "from its markers",
    Evidence.COORDINATOR: "the coordinator's log has it as {state}",
    Evidence.MARKER_ELSEWHERE: "from its marker on another partition",
    Evidence.PRODUCER_EPOCH: "its epoch is used by no other transaction",
    Evidence.CLOCK: "order and timestamps leave no other transaction",
    Evidence.TIMEOUT: "its timeout of {timeout} ms had passed when the coordinator's log was copied",
    Evidence.MARKER_MISSING: "{missing} of its partitions have no marker",
    Evidence.MARKER_NEVER_WRITTEN: "the coordinator's log has it as ended, its partition continues without "
    "a marker",
    Evidence.AHEAD_OF_COORDINATOR: "the copy of the coordinator's log is older than the markers",
    Evidence.CONTRADICTION: "markers contradict the coordinator or each other",
    Evidence.END_NOT_RECORDED: "the coordinator's log continues, or is unreadable, without its end",
    Evidence.NOT_LISTED: "the coordinator knows the producer, but not this transaction on this partition",
    Evidence.NO_COORDINATOR_ENTRY: "the coordinator's log does not know the producer",
    Evidence.NO_COORDINATOR_LOG: "there is no copy of the coordinator's log, so markers alone decide",
    Evidence.COORDINATOR_OLDER: "undecidable: the coordinator's copy is older than the data",
    Evidence.NOT_PROVEN: "undecidable: the copies do not show that the coordinator's log is newer than the "
    "data by more than its timeout",
    Evidence.SEVERAL_FIT: "it can be one of several transactions that ended differently",
    Evidence.GAP: "offsets are missing that may hold a marker of it",
}


def sentence_of(resolved: ResolvedTransaction, missing: Sized) -> str:
    """Outcome and evidence as a sentence; `missing` are the partitions without a marker."""
    coordinator = resolved.coordinator
    sentence = _sentence(
        resolved.outcome,
        resolved.evidence,
        None if coordinator is None else coordinator.state,
        0 if coordinator is None else coordinator.transaction_timeout_ms,
        len(missing),
    )
    return f"{sentence}{_gaps_of(resolved)}" if Evidence.GAP in resolved.evidence else sentence


def _gaps_of(resolved: ResolvedTransaction) -> str:
    """The offsets that its own parts lack; those of parts that it only may be in are listed there."""
    spans = ((part.topic_partition, part.gap) for part in resolved.parts if part.gap is not None)
    listed = ", ".join(f"{gap.first_offset} to {gap.last_offset} of {where}" for where, gap in spans)
    return f" (missing: {listed})" if listed else ""


@cache
def _sentence(
    outcome: Outcome,
    evidence: tuple[Evidence, ...],
    state: TransactionState | None,
    timeout: int,
    missing: int,
) -> str:
    label = "" if state is None else state.label
    reasons = (_WORDS[each].format(state=label, timeout=timeout, missing=missing) for each in evidence)
    return f"{outcome}: {'; '.join(reasons)}"


@dataclass(slots=True)
class JoinedRows:
    """Collects transactions; `now` is the run's time, `parts` are all that they are made of.

    `reach` is how far the copies reach. `marked` is by known partition, in the order of their
    numbers, whether it has markers. `places` are those of the transactions' parts, in order.
    `owners` are the partitions of __transaction_state that know their producers.
    """

    now: int
    reach: CopyReach
    marked: Mapping[TopicPartition, bool]
    parts: Rows
    transactions: list[ResolvedTransaction] = field(default_factory=list)
    origins: list[Origin] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    owners: list[int | None] = field(default_factory=list)
    copied_at: int | None = field(init=False)

    def __post_init__(self) -> None:
        self.copied_at = self.reach.newest

    def add(
        self,
        resolved: Sequence[ResolvedTransaction],
        origins: Sequence[Origin],
        places: Iterable[int],
        *,
        owner: int | None,
    ) -> None:
        """Transactions with their parts' places; the first of them have `origins`, the others none."""
        self.transactions.extend(resolved)
        self.origins.extend(origins)
        self.origins.extend([NOWHERE] * (len(resolved) - len(origins)))
        self.places.extend(places)
        self.owners.extend([owner] * len(resolved))

    def grouped(self) -> GroupedParts:
        """The parts by transaction."""
        counts = [len(each.parts) for each in self.transactions]
        return GroupedParts(
            rows=self.parts[np.array(self.places, dtype=np.int64)],
            transaction=np.repeat(np.arange(len(counts), dtype=np.int32), counts),
            count=len(counts),
        )

    def transactions_table(self, parts: GroupedParts) -> pa.Table:
        """Rows of `JOINED_TRANSACTIONS`; `parts` are those of `grouped`."""
        starts = range(0, max(parts.count, 1), VALUES_AT_A_TIME)
        slices = (slice(start, start + VALUES_AT_A_TIME) for start in starts)
        return pa.concat_tables(self._slice(each).table_at_once(parts.of(each)) for each in slices)

    def _slice(self, chosen: slice) -> Self:
        """Some of the transactions, without the places of their parts."""
        return replace(
            self,
            transactions=self.transactions[chosen],
            origins=self.origins[chosen],
            owners=self.owners[chosen],
            places=[],
        )

    def table_at_once(self, parts: GroupedParts) -> pa.Table:
        """The same for a few transactions: every column is a list of values first."""
        missing = [each.markers_missing for each in self.transactions]
        decisions = decisions_of(self.transactions)
        decided = _decided(decisions)
        columns = {
            **self._resolved(missing),
            **decided,
            **self._logged(parts),
            **self._seen(parts, _flags(decided["timed_out"])),
            "is_ended": self._is_ended(decisions, parts, missing),
            "is_unknowable": self._is_unknowable(decisions, parts),
        }
        arrays = [_array(columns[each.name], each.type) for each in JOINED_TRANSACTIONS]
        return pa.table(arrays, schema=JOINED_TRANSACTIONS)

    def _resolved(self, missing: Sequence[Missing]) -> Columns:
        """Columns from the resolved transaction alone."""
        resolved = self.transactions
        return {
            "transactional_id": [each.transactional_id for each in resolved],
            "producer_id": [each.producer_id for each in resolved],
            "producer_epoch": [each.producer_epoch for each in resolved],
            "sentence": list(map(sentence_of, resolved, missing)),
            "partitions_expected": list(map(_names_expected, resolved)),
            "markers_missing": [names_of(each) for each in missing],
            "age_ms": [None if each.outcome.is_decided else self._age(each) for each in resolved],
            "coordinator_time": [
                None if each.outcome.is_decided else self.reach.coordinator_time(owner)
                for each, owner in zip(resolved, self.owners, strict=True)
            ],
            "data_time": [None if each.outcome.is_decided else self._data_time(each) for each in resolved],
            "set_aside": [each.is_set_aside for each in resolved],
        }

    def _logged(self, parts: GroupedParts) -> Columns:
        """Columns from the coordinator's log, or times of batches and markers where it has nothing."""
        logged = [each.coordinator for each in self.transactions]
        starts = pa.array([each and each.start_timestamp_ms for each in logged], pa.int64())
        ends = pa.array([each and each.end_timestamp_ms for each in logged], pa.int64())
        return {
            "state": [each and _LABELS[each.state] for each in logged],
            "transaction_version": [each and each.client_transaction_version for each in logged],
            "transaction_timeout_ms": [each and each.transaction_timeout_ms for each in logged],
            "start_timestamp": pc.coalesce(starts, parts.least("first_timestamp", parts.has_data)),
            "end_timestamp": pc.coalesce(ends, parts.least("marker_timestamp", parts.has_marker)),
            "coordinator_epochs": [() if each is None else each.coordinator_epochs for each in logged],
            "coordinator_partition": [each.coordinator_partition for each in self.origins],
            "first_record_offset": [NONE if each is None else each.first_record_offset for each in logged],
        }

    def _seen(self, parts: GroupedParts, timed_out: Flags) -> Columns:
        """Columns from the parts; a timeout that passed since the last run is a change without a batch."""
        beginnings, starts = parts.beginnings()
        names = pa.array(map(str, self.marked), pa.string())
        was_open = parts.any_of((parts.rows["is_below_published"] == 0) & parts.has_data)
        is_news = parts.any_of(parts.rows["is_news"] != 0) | (timed_out & was_open)
        return {
            "batches": parts.total("batches"),
            "records": parts.total("records"),
            "partitions_found": pa.ListArray.from_arrays(starts, names.take(beginnings["partition"])),
            "first_offsets": pa.ListArray.from_arrays(starts, pa.array(beginnings["first_offset"])),
            "is_news": is_news | np.array([each.is_news for each in self.origins], dtype=np.bool_),
        }

    def _age(self, resolved: ResolvedTransaction) -> int | None:
        """Time from its last batch, or the coordinator's last record of it, to the time of the copies."""
        coordinator = resolved.coordinator
        seen = [part.last_timestamp for part in resolved.parts]
        if coordinator is not None:
            seen.append(coordinator.last_update_timestamp_ms)
        return max(self.copied_at - max(seen), 0) if seen and self.copied_at is not None else None

    def _data_time(self, resolved: ResolvedTransaction) -> int | None:
        """The latest time that the data of its partitions shows: of markers, its own batches, or a copy."""
        shown = (self.reach.data_time(part.topic_partition) for part in resolved.parts)
        own = (part.last_timestamp for part in resolved.parts)
        return max((each for each in (*shown, *own) if each is not None), default=None)

    def _is_unknowable(self, decisions: DecidedOutcomes, parts: GroupedParts) -> Flags:
        """Of each transaction, whether nothing but a marker, which a capture lacks, would show its end."""
        is_marked = np.fromiter(self.marked.values(), np.bool_, len(self.marked))
        is_unmarked = parts.any_of(~is_marked[parts.rows["partition"]] & ~parts.has_marker)
        found: Flags = is_unmarked & decisions.column(_is_unknown, pa.bool_()).to_numpy(zero_copy_only=False)
        return found

    def _is_ended(self, decisions: DecidedOutcomes, parts: GroupedParts, missing: Sequence[Missing]) -> Flags:
        """Decided by a marker or a coordinator, with every marker that is still expected."""
        wait = CompletionWait(now=self.now, marked=self.marked)
        logged = (each.coordinator for each in self.transactions)
        is_over = np.fromiter(map(wait.is_over, logged, missing), np.bool_, len(missing))
        found: Flags = decisions.is_final & ~parts.any_of(~parts.has_marker) & is_over
        return found


def joined_parts_table(parts: GroupedParts) -> pa.Table:
    """Rows of `JOINED_PARTS`."""
    columns = [parts.transaction, *part_columns(parts.rows).values()]
    return pa.table([pa.array(each) for each in columns], schema=JOINED_PARTS)


def _decided(decisions: DecidedOutcomes) -> Columns:
    """What follows from outcome and evidence alone."""
    return {
        "outcome": decisions.column(lambda outcome, _: outcome.value, pa.string()),
        "evidence": decisions.column(lambda _, evidence: evidence, pa.list_(pa.string())),
        "outcome_code": decisions.column(lambda outcome, _: CODE_OF[outcome], pa.int8()),
        "timed_out": decisions.column(lambda _, evidence: Evidence.TIMEOUT in evidence, pa.bool_()),
        "is_behind": decisions.column(lambda _, evidence: Evidence.COORDINATOR_OLDER in evidence, pa.bool_()),
    }


def _is_unknown(outcome: Outcome, evidence: Sequence[Evidence]) -> bool:
    return not outcome.is_decided and not _UNKNOWN.isdisjoint(evidence)


def _flags(column: "pa.Array[Any]") -> Flags:
    found: Flags = column.to_numpy(zero_copy_only=False)
    return found


def _array(column: Any, kind: pa.DataType) -> "pa.Array[Any]":
    return column if isinstance(column, pa.Array) else pa.array(column, kind)


def _names_expected(resolved: ResolvedTransaction) -> tuple[str, ...] | None:
    """The partitions that the coordinator lists; None if it has no list."""
    coordinator = resolved.coordinator
    if coordinator is None or coordinator.topic_partitions is None:
        return None
    return names_of(resolved.partitions_expected)


@lru_cache(maxsize=1 << 16)
def names_of(partitions: Sequence[TopicPartition]) -> tuple[str, ...]:
    """Each as `topic-partition`, remembered: they come again with every transaction."""
    return tuple(map(str, partitions))
