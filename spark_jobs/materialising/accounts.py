"""Spark tasks beside decoding: the run's verdicts, quarantine and producers, as tables."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass

from spark_jobs.materialising.batch_table import BatchTable, Unreadable
from spark_jobs.materialising.outcome_files import view_of
from spark_jobs.materialising.producer_table import producer_rows
from spark_jobs.materialising.quarantine_table import QuarantineTable
from spark_jobs.materialising.rows import from_batches
from spark_jobs.materialising.sources import Objects
from spark_jobs.materialising.summaries import PartitionPlan, TableFile, Workshop
from spark_jobs.materialising.table_files import TableFiles
from spark_jobs.storage.parquet_file import iter_rows, read_table
from spark_jobs.storage.state_file import get_state
from spark_jobs.tables.materialise import QuarantineKind
from spark_jobs.tables.publish import OWN_TABLES

TABLES = ("batches", "quarantine", "producers")


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """One partition with news; `state` names its state file, `unreadable` are files about its batches."""

    plan: PartitionPlan
    rows: int
    state: str
    unreadable: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountTask:
    """Some partitions for one worker; `number` names its files."""

    number: int
    accounts: tuple[Account, ...]
    workshop: Workshop


def account_for_partitions(task: AccountTask) -> dict[str, tuple[TableFile, ...]]:
    """Writes the task's files of every table; the same task again writes the same bytes."""
    with ExitStack() as stack:
        files = {
            table: stack.enter_context(
                TableFiles(task.workshop, _namer(table, task.number), OWN_TABLES[table].schema)
            )
            for table in TABLES
        }
        for account in task.accounts:
            _add(task.workshop, account, files)
        return {table: output.finish() for table, output in files.items()}


def _namer(table: str, number: int) -> Callable[[int], str]:
    return lambda part: f"{table}/{number:05d}-{part:03d}.parquet"


def _add(workshop: Workshop, account: Account, files: dict[str, TableFiles]) -> None:
    plan, view = account.plan, view_of(workshop.lake, account.plan)
    batch_table = BatchTable(
        objects=plan.objects,
        outcomes=view.outcomes,
        unreadable=_unreadable(workshop, account),
        run_date=workshop.run_date,
    )
    quarantine = QuarantineTable(
        objects=Objects(workshop.settings, {place.order: place for place in plan.objects}),
        view=view,
        most_bytes=workshop.settings.limits.max_batch_bytes,
    )
    for part in iter_rows(workshop.lake, plan.batches):
        published = batch_table.rows_of(part)
        files["batches"].add(published)
        for rows in quarantine.rows_of(published, from_batches(part)):
            files["quarantine"].add(rows)
    producers = get_state(workshop.lake, account.state).producers
    files["producers"].add(producer_rows(plan.partition, producers, workshop.run_date))


def _unreadable(workshop: Workshop, account: Account) -> Unreadable:
    found: dict[tuple[int, int], str] = {}
    for key in account.unreadable:
        for row in read_table(workshop.lake, key).to_pylist():
            is_own = (row["topic"], row["partition"], row["held"]) == (*account.plan.partition, "")
            if is_own and row["kind"] == QuarantineKind.CORRUPT:
                found[row["object_order"], row["position"]] = row["reason"]
    return found
