"""Taking a published run back: out of the tables, and off its date; its folder stays, so it can run again."""

from spark_jobs.config.settings import Settings
from spark_jobs.flow import Step
from spark_jobs.storage.chain import read_chain, take_back
from spark_jobs.storage.errors import ObjectMissing
from spark_jobs.storage.iceberg.catalog import open_catalog
from spark_jobs.storage.iceberg.withdrawal import withdraw_run
from spark_jobs.storage.layout import run_key
from spark_jobs.storage.lock import lake_lock
from spark_jobs.storage.object_store import ObjectStore
from spark_jobs.storage.run_folder import INPUTS, RunFolder, read_inputs
from spark_jobs.storage.stores import open_lake


def roll_back(settings: Settings, run_id: str) -> int:
    """In how many tables the run was found; safe to repeat, and only for the newest date.

    First the run stops being published, then it leaves the tables, then its date: whoever runs the night
    again, even in between, publishes it anew.
    """
    lake = open_lake(settings)
    with lake_lock(lake, purpose=f"rollback of {run_id}") as lock:
        folder, chain = _folder(lake, run_id), read_chain(lake)
        chain.check_last(folder.inputs.day)
        folder.begin(Step.PUBLISH)
        with open_catalog(settings) as catalog:
            namespaces = (settings.catalog.namespace, settings.catalog.topics)
            found = withdraw_run(catalog, namespaces, run_id, folder.inputs.day)
        lock.check()
        take_back(lake, chain, run_id)
        return found


def _folder(lake: ObjectStore, run_id: str) -> RunFolder:
    if lake.stat(run_key(run_id, INPUTS)) is None:
        raise ObjectMissing(f"{run_id}: the lake {lake.url} has no such run; `onceover runs` lists them")
    return RunFolder(lake, read_inputs(lake, run_id))
