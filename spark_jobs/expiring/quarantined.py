"""Quarantined rows that may still be replayed and whose bytes the table does not hold."""

from collections.abc import Collection
from typing import Any

from spark_jobs.flow import Step
from spark_jobs.storage.object_store import ObjectStore
from spark_jobs.storage.parquet_file import iter_rows
from spark_jobs.storage.run_folder import RunFolder, read_inputs
from spark_jobs.storage.table_listing import read_listing
from spark_jobs.tables.materialise import QUARANTINE, QuarantineKind

COLUMNS = ["source", "path", "position", "kind", "offset", "bytes"]

ObjectName = tuple[str, str]
Chosen = Collection[tuple[tuple[str, str, int], int | None]]
"""Places, with the offset of a record, that are decided already."""


def undecided_objects(lake: ObjectStore, run_id: str, chosen: Chosen) -> set[ObjectName]:
    """Source and path of objects that a replay would read: of values that did not fit, of large batches."""
    folder = RunFolder(lake, read_inputs(lake, run_id))
    found: set[ObjectName] = set()
    for entry in read_listing(folder, Step.MATERIALISE):
        if entry.table == QUARANTINE.name and entry.topic is None and entry.file is not None:
            for part in iter_rows(lake, folder.key(Step.MATERIALISE, entry.file), columns=COLUMNS):
                found |= {(row["source"], row["path"]) for row in part.to_pylist() if _is_open(row, chosen)}
    return found


def _is_open(row: dict[str, Any], chosen: Chosen) -> bool:
    is_unfit = row["kind"] == QuarantineKind.UNFIT
    was_taken = row["kind"] == QuarantineKind.CORRUPT and row["offset"] is not None
    is_absent = row["kind"] != QuarantineKind.HELD and row["bytes"] is None
    place = row["source"], row["path"], row["position"]
    return (is_unfit or was_taken or is_absent) and (place, row["offset"] if is_unfit else None) not in chosen
