"""Taking away what a lake can do without, so that it does not grow for ever; safe to repeat at any point."""

from datetime import date, timedelta

from spark_jobs.config.settings import Settings
from spark_jobs.expiring.cutoffs import DATE_LENGTH, cutoffs_of
from spark_jobs.expiring.plan import ExpiryPlan, Lake, plan_folders, plan_objects
from spark_jobs.storage.chain import Chain, read_chain
from spark_jobs.storage.errors import OutOfTurn
from spark_jobs.storage.iceberg.catalog import open_catalog
from spark_jobs.storage.iceberg.commits import find_table
from spark_jobs.storage.iceberg.expiry import (
    delete_files,
    expire_table,
    live_files,
    plan_table,
    tables_of,
)
from spark_jobs.storage.iceberg.holdings import check_holdings
from spark_jobs.storage.iceberg.unnamed import prune_unreferenced, put_unnamed, read_unnamed
from spark_jobs.storage.identity import locked_lake, open_at_home
from spark_jobs.storage.ledger import Ledger
from spark_jobs.storage.object_store import ObjectStore
from spark_jobs.storage.run_folder import RunFolder, read_inputs

MOST_DAYS_AHEAD = 2
"""Of a run's date before the day on which it was started; time zones explain one."""


def plan_expiry(settings: Settings) -> ExpiryPlan:
    """What would go now; nothing is changed. Raises `OutOfTurn` after a run of a date in the future."""
    store = open_at_home(settings)
    chain = read_chain(store)
    _check_newest(store, chain)
    cutoffs = cutoffs_of(chain, settings.retention)
    with open_catalog(settings) as catalog:
        check_holdings(catalog, settings, store, chain)  # a file of a lost table would look unneeded
        tables = list(tables_of(catalog, settings))
        plans = [
            plan_table(table, lambda run_id: cutoffs.is_old(run_id, cutoffs.snapshots)) for table in tables
        ]
        live = {
            path
            for table, plan in zip(tables, plans, strict=True)
            for path in live_files(table, plan.snapshots)
        }
    lake = Lake(store, settings, chain, cutoffs)
    return ExpiryPlan(
        tables=tuple(plan for plan in plans if plan),
        folders=tuple(plan_folders(lake, live)),
        objects=plan_objects(lake),
    )


def _check_newest(store: ObjectStore, chain: Chain) -> None:
    """Dates count from the newest run: one of a mistyped date would make all others old."""
    newest = list(chain.current.values())[-1:]
    for entry in newest:
        line = Ledger(store).read(entry.run_id)
        started = date.fromisoformat(line.started_at[:DATE_LENGTH]) if line is not None else entry.day
        if entry.day - started > timedelta(days=MOST_DAYS_AHEAD):
            raise OutOfTurn(
                f"run {entry.run_id} was started on {started}, for a date in its future. Retention counts "
                "from the newest run, so all earlier ones would count as old; nothing was removed. If the "
                f"date was a mistake: onceover rollback {entry.run_id}"
            )


def expire(settings: Settings) -> ExpiryPlan:
    """Removes what the plan lists: first from the tables, then copies of objects, then run folders.

    An interrupted expiry leaves no orphans: the next one continues.
    """
    with locked_lake(settings, purpose="expiry") as (store, lock):
        plan = plan_expiry(settings)
        _expire_tables(settings, store, plan)
        lock.check()
        for found in plan.objects:
            store.delete(found.key)
        for folder in plan.folders:
            if folder.speaks:
                RunFolder(store, read_inputs(store, folder.run_id)).expire()
            for file in folder.files:
                store.delete(file.key)
        return plan


def _expire_tables(settings: Settings, store: ObjectStore, plan: ExpiryPlan) -> None:
    """Files that only expiring snapshots reference are recorded first: afterwards nothing references them."""
    with open_catalog(settings) as catalog:
        for each in plan.tables:
            put_unnamed(store, each)
            expire_table(catalog, each)
        for name, files in read_unnamed(store).items():
            table = find_table(catalog, name)
            if table is not None:
                delete_files(table, files)
            prune_unreferenced(store, name)
