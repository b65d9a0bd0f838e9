"""Spark tasks that write Onceover's own tables: verdicts, quarantine, producers, tables of earlier steps."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.kafka.producers.verdict import Verdict, VerdictGroup
from spark_jobs.kafka.topic_partition import TopicPartition
from spark_jobs.kernels.producers import Rows
from spark_jobs.lake.parquet_file import iter_rows, read_table
from spark_jobs.lake.states import get_state
from spark_jobs.pipeline.materialise.batch_rows import NONE, BatchRows, Objects, from_batches
from spark_jobs.pipeline.materialise.decoding import plan_reads
from spark_jobs.pipeline.materialise.job import ObjectPlace, PartitionPlan, TableFile, TaskContext
from spark_jobs.pipeline.materialise.outcomes import ABORTED, COMMITTED, Outcomes, View, names_of, view_of
from spark_jobs.pipeline.materialise.table_files import TableFiles
from spark_jobs.tables.contract import RUN_DATE, as_published
from spark_jobs.tables.materialise import QuarantineKind
from spark_jobs.tables.publish import OWN_TABLES

# The table `batches`: with the object's path, the transaction's outcome, and decoding errors.

UnreadableRecords = Mapping[tuple[int, int], str]
"""(object order, position) → why the batch's records cannot be decoded."""

BATCHES_SCHEMA = OWN_TABLES["batches"].schema


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchTable:
    """Makes rows of the published table `batches` for one partition."""

    objects: Sequence[ObjectPlace]
    outcomes: Outcomes
    unreadable: UnreadableRecords
    run_date: date

    def rows_of(self, batches: pa.RecordBatch) -> pa.Table:
        """Rows of `admit` with all that was found out since."""
        count = batches.num_rows
        columns: dict[str, Any] = {name: batches.column(name) for name in batches.schema.names}
        columns |= self._corrected(batches)
        first_offsets = np.asarray(batches.column("txn_first_offset").fill_null(NONE))
        columns["outcome"] = names_of(self.outcomes.outcome, self.outcomes.index_of(first_offsets))
        columns["path"] = self._paths(np.asarray(batches.column("object_order")))
        columns["run_date"] = pa.repeat(pa.scalar(self.run_date, pa.date32()), count)
        return as_published(pa.table(columns), BATCHES_SCHEMA)

    def _paths(self, orders: npt.NDArray[np.int32]) -> "pa.Array[Any]":
        """The path of each row's object, null where it is in none."""
        objects = sorted(self.objects, key=lambda place: place.order)
        known = np.array([*(place.order for place in objects), NONE], dtype=np.int64)
        index = np.searchsorted(known[:-1], orders)
        found = np.where(known[index] == orders, index, NONE)
        return names_of(pa.array([place.path for place in objects], pa.string()), found)

    def _corrected(self, batches: pa.RecordBatch) -> dict[str, Any]:
        """Header and checksum were right, so the batch was taken; its records cannot be decoded."""
        if not self.unreadable:
            return {}
        places = zip(
            *(batches.column(name).to_pylist() for name in ("object_order", "position")), strict=True
        )
        reasons = [self.unreadable.get(place) for place in places]
        is_bad = [reason is not None for reason in reasons]
        corrected = {
            "verdict": Verdict.CORRUPT.value,
            "kafka_error": Verdict.CORRUPT.kafka_error.name,
        }
        columns = {
            name: [
                value if bad else old
                for bad, old in zip(is_bad, batches.column(name).to_pylist(), strict=True)
            ]
            for name, value in corrected.items()
        }
        old_reasons = batches.column("reason").to_pylist()
        columns["reason"] = [new or old for new, old in zip(reasons, old_reasons, strict=True)]
        return {name: pa.array(values, pa.string()) for name, values in columns.items()}


# The table `producers`.

PRODUCERS_SCHEMA = OWN_TABLES["producers"].schema


def producer_rows(partition: TopicPartition, producers: Rows, run_date: date) -> pa.Table:
    """Rows of the table `producers`; `producers` are canonical: the newest batch is the last of each ring."""
    count = len(producers)
    newest = np.maximum(producers["batches"].astype(np.int64) - 1, 0)
    is_new = producers["batches"] == 0
    every = np.arange(count)
    transactions = producers["txn_first_offset"]
    columns: dict[str, Any] = {
        "topic": pa.repeat(pa.scalar(partition.topic), count),
        "partition": pa.repeat(pa.scalar(partition.partition, pa.int32()), count),
        "last_sequence": pa.array(producers["last_sequence"][every, newest], mask=is_new),
        "last_offset": pa.array(producers["last_offset"][every, newest], mask=is_new),
        "txn_first_offset": pa.array(transactions, mask=transactions == NONE),
        "run_date": pa.repeat(pa.scalar(run_date, pa.date32()), count),
        **{
            name: pa.array(np.ascontiguousarray(producers[name]))
            for name in ("producer_id", "producer_epoch", "last_timestamp", "coordinator_epoch")
        },
    }
    return as_published(pa.table(columns), PRODUCERS_SCHEMA)


# The table `quarantine`: rejected, corrupt, unreadable, held and parked batches, with their bytes.

QUARANTINE_SCHEMA = OWN_TABLES["quarantine"].schema

_KINDS = {
    VerdictGroup.REJECTED: QuarantineKind.REJECTED,
    VerdictGroup.CORRUPT: QuarantineKind.CORRUPT,
    VerdictGroup.HELD: QuarantineKind.HELD,
}
_KIND_OF = {
    verdict.value: _KINDS[verdict.group].value
    for verdict in Verdict
    if verdict.group in _KINDS and (verdict.waits_for or verdict.group is not VerdictGroup.HELD)
}
"""The kind of each quarantined verdict. Duplicates are not quarantined: their originals are in the tables.
Nor are batches behind a gap in a broker's log: the table `gaps` lists the gap, and a later
run publishes them."""
_KIND_TYPE = f"U{max(map(len, QuarantineKind))}"


_BEHIND = "it follows a transaction that is not decided yet"
"""Why an accepted batch is held though its own transaction is decided."""


def _why_held(outcomes: Sequence[str | None]) -> "pa.Array[Any]":
    """Why batches of transactions with these outcomes are held."""
    reasons = [_BEHIND if each in {None, COMMITTED} else f"its transaction is {each}" for each in outcomes]
    return pa.array(reasons, pa.string())


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantineTable:
    """Makes rows of the table `quarantine` for one partition; bytes beyond `most_bytes` are left out."""

    objects: Objects
    view: View
    most_bytes: int

    def rows_of(self, batches: pa.Table, rows: BatchRows) -> Iterator[pa.Table]:
        """Those of `batches`, published rows, that belong here; `rows` are the same in the same order."""
        kinds = self._kinds(batches, rows)
        chosen = np.flatnonzero(kinds != "")
        is_large = rows.headers.size[chosen] > self.most_bytes
        for row in chosen[is_large]:
            yield self._table(batches.slice(row, 1), kinds[[row]], pa.nulls(1, pa.binary()))
        chosen = chosen[~is_large]
        for stretch in plan_reads(rows.take(chosen)):
            part = chosen[stretch]
            yield self._table(batches.take(part), kinds[part], self._bytes(rows.take(part)))

    def _kinds(self, batches: pa.Table, rows: BatchRows) -> npt.NDArray[np.str_]:
        """Why each row is here, empty where it is not; a marker that is in no object never is."""
        verdicts = np.asarray(batches.column("verdict").to_numpy())
        kinds = np.zeros(verdicts.size, dtype=_KIND_TYPE)
        for verdict, kind in _KIND_OF.items():
            kinds[verdicts == verdict] = kind
        kinds[(kinds == "") & self._is_held(rows)] = QuarantineKind.HELD.value
        kinds[np.asarray(batches.column("path").is_null())] = ""
        return kinds

    def _is_held(self, rows: BatchRows) -> npt.NDArray[np.bool_]:
        """Accepted, but not decided yet, or behind something that is not."""
        indices = self.view.outcomes.index_of(np.where(rows.is_accepted, rows.txn_first_offset, NONE))
        is_aborted: npt.NDArray[np.bool_] = np.append(self.view.outcomes.are(ABORTED), False)[indices]
        is_beyond: npt.NDArray[np.bool_] = rows.headers.base_offset >= self.view.end_offset
        return rows.is_accepted & rows.is_data & is_beyond & ~is_aborted

    def _bytes(self, rows: BatchRows) -> "pa.Array[Any]":
        """The bytes of the batches, which are close together in one object."""
        start = int(rows.headers.position[0])
        end = int(rows.headers.position[-1] + rows.headers.size[-1])
        data = memoryview(self.objects.read(int(rows.object_order[0]), start, end - start))
        places = zip((rows.headers.position - start).tolist(), rows.headers.size.tolist(), strict=True)
        return pa.array([bytes(data[at : at + size]) for at, size in places], pa.binary())

    def _table(self, batches: pa.Table, kinds: npt.NDArray[np.str_], data: "pa.Array[Any]") -> pa.Table:
        added: dict[str, Any] = {
            "kind": pa.array(kinds.tolist(), pa.string()),
            "reason": pc.coalesce(batches.column("reason"), _why_held(batches.column("outcome").to_pylist())),
            "bytes": data,
        }
        columns = [added[name] if name in added else batches.column(name) for name in QUARANTINE_SCHEMA.names]
        return pa.table(columns, names=QUARANTINE_SCHEMA.names).cast(QUARANTINE_SCHEMA)


# The task.

TABLES = ("batches", "quarantine", "producers")


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """One partition with batches in this run, the name of its state file, and its files of `unreadable`."""

    plan: PartitionPlan
    rows: int
    state: str
    unreadable: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountTask:
    """Some partitions for one worker; `name` names its files."""

    number: int
    accounts: tuple[Account, ...]
    context: TaskContext

    @property
    def name(self) -> str:
        """A task that runs again has other files: an attempt of the first round may still be writing."""
        is_corrected = any(account.unreadable for account in self.accounts)
        return f"{self.number:05d}-corrected" if is_corrected else f"{self.number:05d}"


def account_for_partitions(task: AccountTask) -> dict[str, tuple[TableFile, ...]]:
    """Writes the task's files of every table; the same task again writes the same bytes."""
    with ExitStack() as stack:
        files = {
            table: stack.enter_context(
                TableFiles(task.context, _namer(table, task.name), OWN_TABLES[table].schema)
            )
            for table in TABLES
        }
        for account in task.accounts:
            _add(task.context, account, files)
        return {table: output.finish() for table, output in files.items()}


def _namer(table: str, task: str) -> Callable[[int], str]:
    return lambda part: f"{table}/{task}-{part:03d}.parquet"


def _add(context: TaskContext, account: Account, files: dict[str, TableFiles]) -> None:
    plan, view = account.plan, view_of(context.lake, account.plan)
    batch_table = BatchTable(
        objects=plan.objects,
        outcomes=view.outcomes,
        unreadable=_unreadable(context, account),
        run_date=context.run_date,
    )
    quarantine = QuarantineTable(
        objects=Objects(context.settings, {place.order: place for place in plan.objects}),
        view=view,
        most_bytes=context.settings.limits.max_batch_bytes,
    )
    for part in iter_rows(context.lake, plan.batches):
        published = batch_table.rows_of(part)
        files["batches"].add(published)
        for rows in quarantine.rows_of(published, from_batches(part)):
            files["quarantine"].add(rows)
    producers = get_state(context.lake, account.state).producers
    files["producers"].add(producer_rows(plan.partition, producers, context.run_date))


def _unreadable(context: TaskContext, account: Account) -> UnreadableRecords:
    found: dict[tuple[int, int], str] = {}
    for key in account.unreadable:
        for row in read_table(context.lake, key).to_pylist():
            is_own = (row["topic"], row["partition"], row["held"]) == (*account.plan.partition, "")
            if is_own and row["kind"] == QuarantineKind.CORRUPT:
                found[row["object_order"], row["position"]] = row["reason"]
    return found


# Tables of earlier steps, published with the run's date.


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayTask:
    """Files of one table, by their keys in the lake."""

    table: str
    keys: Sequence[str]
    context: TaskContext


def relay_table(task: RelayTask) -> tuple[TableFile, ...]:
    """Writes the table's share of the run; the same task again writes the same bytes."""
    schema, run_date = OWN_TABLES[task.table].schema, task.context.run_date
    with TableFiles(task.context, lambda part: f"{task.table}/{part:05d}.parquet", schema) as output:
        for key in task.keys:
            for rows in iter_rows(task.context.lake, key):
                dates = pa.repeat(pa.scalar(run_date, pa.date32()), rows.num_rows)
                table = pa.Table.from_batches([rows]).append_column(RUN_DATE.name, dates)
                output.add(as_published(table, schema))
        return output.finish()
