"""The quarantined rows of a run, and the selection of some."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from spark_jobs.flow import Step
from spark_jobs.storage.object_store import ObjectStore
from spark_jobs.storage.parquet_file import iter_rows
from spark_jobs.storage.run_folder import RunFolder, read_inputs
from spark_jobs.storage.table_listing import read_listing
from spark_jobs.tables.materialise import QUARANTINE, QuarantineKind

Row = dict[str, Any]
Place = tuple[str, str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Rows of one run's quarantine; what is None does not matter."""

    run_id: str
    topic: str | None = None
    partition: int | None = None
    kind: QuarantineKind | None = None
    offset: int | None = None
    path: str | None = None

    def takes(self, row: Row) -> bool:
        """Whether the row is selected."""
        wanted = {name: getattr(self, name) for name in ("topic", "partition", "kind", "offset", "path")}
        return all(row[name] == value for name, value in wanted.items() if value is not None)


def quarantined(lake: ObjectStore, selection: Selection) -> Iterator[Row]:
    """The chosen rows as the run wrote them, without the batches' bytes."""
    folder = RunFolder(lake, read_inputs(lake, selection.run_id))
    for entry in read_listing(folder, Step.MATERIALISE):
        if entry.table == QUARANTINE.name and entry.topic is None and entry.file is not None:
            for part in iter_rows(lake, folder.key(Step.MATERIALISE, entry.file)):
                yield from filter(selection.takes, part.to_pylist())


def place_of(row: Row) -> Place:
    """The batch's location: source, path and position."""
    return row["source"], row["path"], row["position"]
