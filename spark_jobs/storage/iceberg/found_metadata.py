"""Metadata files of tables that are still in the lake, though the catalog does not name them any more."""

import json
import re
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from functools import cached_property

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import StaticTable, Table

from spark_jobs.config.settings import Settings
from spark_jobs.storage.errors import PublishFailed
from spark_jobs.storage.iceberg.catalog import WAREHOUSE, catalog_properties
from spark_jobs.storage.iceberg.expiry import current_files
from spark_jobs.storage.iceberg.run_targets import TableKey
from spark_jobs.storage.iceberg.target import TOPIC_PROPERTY
from spark_jobs.storage.identity import same_location
from spark_jobs.storage.object_store import ObjectStore

MOST_TRIED = 8
"""Of the newest metadata files: each commit that failed may have left one that was never entered."""
NUMBERED = re.compile(r"(?P<directory>.*)/metadata/(?P<number>\d+)-[^/]*\.metadata\.json")

TableName = tuple[str, ...]
Numbered = tuple[int, str]


class FoundMetadata:
    """The metadata files below the lake's warehouse, by the table that they are of."""

    def __init__(self, settings: Settings, lake: ObjectStore) -> None:
        self._settings, self._lake = settings, lake
        self._properties = catalog_properties(settings, in_memory=True)

    def newest(
        self, key: TableKey, standing: Table | None, *, is_whole: Callable[[Table], bool]
    ) -> Table | None:
        """The table by its newest metadata that `is_whole`, else by the newest that can be read.

        Only what is newer than `standing`, the table as the catalog has it, and follows from it.
        """
        files = [file for numbered in self._by_table.get(key, ()) for file in numbered[:MOST_TRIED]]
        read = (self._read(file) for _, file in files)
        found = [table for table in read if table is not None and _follows(table, standing)]
        newest = sorted(found, key=_age, reverse=True)
        return next(filter(is_whole, newest), newest[0] if newest else None)

    @cached_property
    def _by_table(self) -> dict[TableKey, list[list[Numbered]]]:
        """Of each table's directories the files, the highest number first."""
        found: dict[TableKey, list[list[Numbered]]] = defaultdict(list)
        catalog = self._settings.catalog
        for directory, files in self._directories(catalog.namespace).items():
            found[TableKey(None, directory.rpartition("/")[2])].append(sorted(files, reverse=True))
        for files in self._directories(catalog.topics).values():
            numbered = sorted(files, reverse=True)
            topics = filter(None, (self._topic(file) for _, file in numbered[:MOST_TRIED]))
            found[TableKey(next(topics, None), "")].append(numbered)
        return found

    def _directories(self, namespace: str) -> dict[str, list[Numbered]]:
        """By directory of a table in the namespace its metadata files, with their numbers."""
        found: dict[str, list[Numbered]] = defaultdict(list)
        for place in (f"{WAREHOUSE}/{namespace}", f"{WAREHOUSE}/{namespace}.db"):
            for each in self._lake.list(place):
                if match := NUMBERED.fullmatch(each.key):
                    found[match["directory"]].append((int(match["number"]), each.key))
        return found

    def _topic(self, file: str) -> str | None:
        try:
            topic: str | None = json.loads(self._lake.read(file))["properties"].get(TOPIC_PROPERTY)
        except (ValueError, KeyError, AttributeError):
            return None  # cut short
        return topic

    def _read(self, file: str) -> Table | None:
        """None for a file that was cut short, whose manifests are gone, or that is of another lake."""
        address = self._lake.url_of(file)
        try:
            table = StaticTable.from_metadata(address, self._properties)
            current_files(table)
        except Exception:  # noqa: BLE001 — Iceberg's readers raise whatever the damaged bytes lead them to
            return None
        return table if same_location(table.location(), address.rpartition("/metadata/")[0]) else None


def enter_table(catalog: Catalog, name: TableName, metadata: str) -> None:
    """The catalog names this metadata from now on; no file is removed."""
    try:
        with suppress(NoSuchTableError):
            catalog.drop_table(name)
        catalog.register_table(name, metadata)
    except Exception as error:
        raise PublishFailed(
            f"{'.'.join(name)}: the catalog did not take {metadata}: {error}; repair again"
        ) from error


def _follows(table: Table, standing: Table | None) -> bool:
    if standing is None:
        return True
    return table.metadata.table_uuid == standing.metadata.table_uuid and _age(table) > _age(standing)


def _age(table: Table) -> tuple[int, int]:
    return getattr(table.metadata, "last_sequence_number", 0), table.metadata.last_updated_ms
