"""Restores what the catalog lost from the lake: from existing metadata files, or by publishing again.

Each table that lacks published runs is repaired on its own. Where the lake has newer metadata of the table
than the catalog, that metadata is registered in the catalog again, with all snapshots and tags. Runs that are
still missing then are published again from their run folders, in order of dates. Rows that an unfinished
backfill has published are removed: afterwards tables hold what the chain lists.
"""

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import StaticTable, Table

from spark_jobs.config.settings import Settings
from spark_jobs.lake.chain import Chain, read_chain
from spark_jobs.lake.errors import PublishFailed
from spark_jobs.lake.iceberg.catalog import WAREHOUSE, catalog_properties, open_catalog
from spark_jobs.lake.iceberg.commits import find_table
from spark_jobs.lake.iceberg.expiry import current_files
from spark_jobs.lake.iceberg.holdings import RunHolding, Tables, find_losses, lost_shares, published_shares
from spark_jobs.lake.iceberg.run_targets import TableKey, publish_again
from spark_jobs.lake.iceberg.target import TOPIC_PROPERTY, TableName
from spark_jobs.lake.identity import locked_lake, open_at_home, same_location
from spark_jobs.lake.object_store import ObjectStore
from spark_jobs.lake.run_folder import RunFolder, read_inputs

MOST_TRIED = 8
"""Newest metadata files to try: each failed commit may have left one that was never registered."""
NUMBERED = re.compile(r"(?P<directory>.*)/metadata/(?P<number>\d+)-[^/]*\.metadata\.json")

Numbered = tuple[int, str]


class FoundMetadata:
    """The metadata files in the lake's warehouse, by table."""

    def __init__(self, settings: Settings, lake: ObjectStore) -> None:
        self._settings, self._lake = settings, lake
        self._properties = catalog_properties(settings, in_memory=True)

    def newest(
        self, key: TableKey, registered: Table | None, *, is_whole: Callable[[Table], bool]
    ) -> Table | None:
        """The table by its newest metadata that `is_whole`, else by the newest that can be read.

        Only metadata that follows from `registered`, the table in the catalog, and is newer.
        """
        files = [file for numbered in self._by_table.get(key, ()) for file in numbered[:MOST_TRIED]]
        read = (self._read(file) for _, file in files)
        found = [table for table in read if table is not None and _follows(table, registered)]
        newest = sorted(found, key=_age, reverse=True)
        return next(filter(is_whole, newest), newest[0] if newest else None)

    @cached_property
    def _by_table(self) -> dict[TableKey, list[list[Numbered]]]:
        """The files of each table's directories, the highest number first."""
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
        """Metadata files with their numbers, by the directory of their table in the namespace."""
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
            return None  # truncated
        return topic

    def _read(self, file: str) -> Table | None:
        """None for a file that is truncated, whose manifests are missing, or that is of another lake."""
        address = self._lake.url_of(file)
        try:
            table = StaticTable.from_metadata(address, self._properties)
            current_files(table)
        except Exception:  # noqa: BLE001 — damaged bytes can raise any exception
            return None
        return table if same_location(table.location(), address.rpartition("/metadata/")[0]) else None


def register_table(catalog: Catalog, name: TableName, metadata: str) -> None:
    """Registers this metadata in the catalog; no file is removed."""
    try:
        with suppress(NoSuchTableError):
            catalog.drop_table(name)
        catalog.register_table(name, metadata)
    except Exception as error:
        raise PublishFailed(
            f"{'.'.join(name)}: the catalog did not take {metadata}: {error}; repair again"
        ) from error


def _follows(table: Table, registered: Table | None) -> bool:
    if registered is None:
        return True
    return table.metadata.table_uuid == registered.metadata.table_uuid and _age(table) > _age(registered)


def _age(table: Table) -> tuple[int, int]:
    return getattr(table.metadata, "last_sequence_number", 0), table.metadata.last_updated_ms


OnProgress = Callable[[str], None]


class RepairKind(StrEnum):
    """How a table gets back the runs that it lacks."""

    ENTER = "enter"
    PUBLISH = "publish"
    LOST = "lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class Repair:
    """One action on one table, or a run's share of the table whose files are missing from the lake."""

    kind: RepairKind
    table: TableKey
    name: TableName = ()
    metadata: str = ""
    share: RunHolding | None = field(default=None, repr=False)
    gone: str = ""

    def __str__(self) -> str:
        if self.share is None:
            return f"{self.table}: enter {self.metadata} in the catalog again, as {'.'.join(self.name)}"
        what = f"{self.share.run_id} with {self.share.rows:,} rows"
        if self.kind is RepairKind.LOST:
            advice = f"{self.gone} is gone; restore it from a backup"
            return f"{self.table}: {what} cannot be published again: {advice}"
        return f"{self.table}: publish {what} again"


def plan_repair(settings: Settings) -> list[Repair]:
    """What a repair would do now; nothing is changed."""
    lake = open_at_home(settings)
    chain = read_chain(lake)
    with open_catalog(settings, read_only=True) as catalog:
        return list(_planned(settings, lake, chain, catalog))


def repair(settings: Settings, on_progress: OnProgress = lambda _: None) -> list[Repair]:
    """Executes the plan and returns it; an interrupted repair can be repeated."""
    with locked_lake(settings, purpose="repair") as (lake, lock):
        chain = read_chain(lake)
        with open_catalog(settings) as catalog:
            planned = list(_planned(settings, lake, chain, catalog))
            for number, each in enumerate(planned, start=1):
                on_progress(f"repair: {number} of {len(planned)}")
                lock.check()
                if each.kind is RepairKind.ENTER:
                    register_table(catalog, each.name, each.metadata)
                elif each.kind is RepairKind.PUBLISH and each.share is not None:
                    folder = RunFolder(lake, read_inputs(lake, each.share.run_id))
                    publish_again(catalog, settings, folder, only=each.table)
        return planned


def _planned(settings: Settings, lake: ObjectStore, chain: Chain, catalog: Catalog) -> Iterator[Repair]:
    shares, tables = published_shares(lake, chain), Tables(catalog, settings)
    metadata = FoundMetadata(settings, lake)
    for loss in find_losses(catalog, settings, shares, chain, strict=True):
        held, lost = shares[loss.table], loss.shares
        registered = None if loss.missing else tables.find(loss.table)
        found = metadata.newest(loss.table, registered, is_whole=_wholeness(held, chain))
        name = _name(catalog, settings, loss.table, found, registered)
        if found is not None and name:
            place = found.metadata_location
            yield Repair(kind=RepairKind.ENTER, table=loss.table, name=name, metadata=place)
            lost = lost_shares(found, held, chain, strict=True)
        for share in lost:
            gone = next((file for file in sorted(share.files) if not _exists(lake, file)), "")
            kind = RepairKind.LOST if gone else RepairKind.PUBLISH
            yield Repair(kind=kind, table=loss.table, share=share, gone=gone)


def _name(
    catalog: Catalog, settings: Settings, key: TableKey, found: Table | None, registered: Table | None
) -> TableName:
    """The table's name in the catalog, else the name of its directory; empty if that name is taken."""
    if registered is not None:
        return registered.name()
    if found is None:
        return ()
    namespace = settings.catalog.namespace if key.topic is None else settings.catalog.topics
    name = (namespace, found.location().rpartition("/")[2])
    return name if find_table(catalog, name) is None else ()


def _wholeness(shares: tuple[RunHolding, ...], chain: Chain) -> Callable[[Table], bool]:
    return lambda table: not lost_shares(table, shares, chain, strict=True)


def _exists(lake: ObjectStore, address: str) -> bool:
    return lake.stat(address.removeprefix(f"{lake.url}/")) is not None
