"""The original location of a lake without identity, from the absolute addresses in its tables' metadata."""

import json

from spark_jobs.config.settings import Settings
from spark_jobs.lake.errors import understood
from spark_jobs.lake.iceberg.catalog import WAREHOUSE, open_catalog
from spark_jobs.lake.iceberg.commits import find_table
from spark_jobs.lake.layout import RUNS
from spark_jobs.lake.object_store import ObjectStore
from spark_jobs.tables.publish import RUNS as RUNS_TABLE

METADATA_ENDING = ".metadata.json"


def recorded_home(settings: Settings, lake: ObjectStore) -> str:
    """The location where a published lake was created, according to its tables' metadata."""
    return _home_in_lake(lake) or _home_in_catalog(settings) or lake.url


def _home_in_lake(lake: ObjectStore) -> str:
    """From the metadata files in the lake; empty without any, because the warehouse is elsewhere."""
    key = next((each.key for each in lake.list(WAREHOUSE) if each.key.endswith(METADATA_ENDING)), "")
    if not key:
        return ""
    with understood(lake.url_of(key)):
        location: str = json.loads(lake.read(key))["location"]
    return location.removesuffix("/" + key.rpartition("/metadata/")[0])


def _home_in_catalog(settings: Settings) -> str:
    """From the address of a file of the table `runs`, which has one of every published run."""
    with open_catalog(settings) as catalog:
        table = find_table(catalog, (settings.catalog.namespace, RUNS_TABLE.name))
        if table is None or table.metadata.current_snapshot() is None:
            return ""
        tasks = table.scan().plan_files()
        return next((task.file.file_path.rpartition(f"/{RUNS}")[0] for task in tasks), "")
