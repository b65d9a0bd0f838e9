"""Rollback: removes a run from the tables and from its date; its folder is kept, so it can run again."""

from spark_jobs.config.settings import Settings
from spark_jobs.flow import Step
from spark_jobs.lake.chain import Chain, read_chain, take_back
from spark_jobs.lake.errors import ObjectMissing
from spark_jobs.lake.iceberg.catalog import open_catalog
from spark_jobs.lake.iceberg.commits import withdraw_run
from spark_jobs.lake.iceberg.holdings import check_holdings
from spark_jobs.lake.iceberg.run_targets import publish_again
from spark_jobs.lake.identity import locked_lake
from spark_jobs.lake.layout import run_key
from spark_jobs.lake.ledger import Ledger
from spark_jobs.lake.object_store import ObjectStore
from spark_jobs.lake.run_folder import INPUTS, RunFolder, read_inputs


def roll_back(settings: Settings, run_id: str) -> int:
    """Rolls a run back; returns the number of tables that held it. Can be repeated.

    Of final runs, only the one of the newest date can be rolled back. First `publish` is marked as not done,
    then the run is removed from the tables, then from its date: a run of the date at any point in between
    publishes again. A run that never became final is marked in the ledger, and the run that it had replaced
    in the tables is published again.
    """
    with locked_lake(settings, purpose=f"rollback of {run_id}") as (lake, lock):
        folder, chain = _folder(lake, run_id), read_chain(lake)
        is_listed = any(entry.run_id == run_id for entry in chain.entries)
        if is_listed:
            chain.check_last(folder.inputs.day)
        found = _withdraw(settings, folder, chain) if is_listed or _has_published(folder) else 0
        lock.check()
        take_back(lake, chain, run_id)
        if not is_listed:
            Ledger(lake).rolled_back(run_id)
        return found


def _has_published(folder: RunFolder) -> bool:
    """Whether the run may be in tables: it has started `publish`."""
    line = Ledger(folder.lake).read(folder.run_id)
    return line is None or any(step.step is Step.PUBLISH for step in line.steps)


def _withdraw(settings: Settings, folder: RunFolder, chain: Chain) -> int:
    run_id, day = folder.run_id, folder.inputs.day
    with open_catalog(settings) as catalog:
        check_holdings(catalog, settings, folder.lake, chain, but=day)
        folder.unmark(Step.PUBLISH)
        namespaces = (settings.catalog.namespace, settings.catalog.topics)
        found = withdraw_run(catalog, namespaces, run_id, day)
        final = chain.run_of(day)
        if final is not None and final.is_published and final.run_id != run_id:
            publish_again(catalog, settings, _folder(folder.lake, final.run_id))
    return found


def _folder(lake: ObjectStore, run_id: str) -> RunFolder:
    if lake.stat(run_key(run_id, INPUTS)) is None:
        raise ObjectMissing(f"{run_id}: the lake {lake.url} has no such run; `onceover runs` lists them")
    return RunFolder(lake, read_inputs(lake, run_id))
