"""Files that are about to lose their last referencing snapshot, recorded until they are deleted.

One object per table below `expiry/`; a later attempt continues with it.
"""

import json

from spark_jobs.config.canonical import canonical_json
from spark_jobs.storage.iceberg.expiry import TableExpiry
from spark_jobs.storage.layout import EXPIRY, expiry_key
from spark_jobs.storage.object_store import ObjectStore

TableName = tuple[str, ...]


def put_unnamed(store: ObjectStore, plan: TableExpiry) -> None:
    """Adds the plan's files to those of earlier attempts."""
    files = {*plan.files, *read_unnamed(store).get(plan.name, ())}
    store.put(expiry_key(".".join(plan.name)), canonical_json({"name": plan.name, "files": sorted(files)}))


def read_unnamed(store: ObjectStore) -> dict[TableName, tuple[str, ...]]:
    """Files by table."""
    found = [json.loads(store.read(each.key)) for each in store.list(EXPIRY)]
    return {tuple(each["name"]): tuple(each["files"]) for each in found}


def prune_unreferenced(store: ObjectStore, name: TableName) -> None:
    """They are gone."""
    store.delete(expiry_key(".".join(name)))
