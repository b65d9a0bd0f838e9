"""Restores what the catalog lost from the lake: from existing metadata files, or by publishing again.

Each table that lacks published runs is repaired on its own. Where the lake has metadata of the table that is
newer than the catalog's, the catalog gets that one again, with all snapshots and tags. What is still missing
then is published again from the run folders, in the order of dates, as the runs themselves would do it. What
an unfinished backfill has put into tables goes, too: they hold what the chain lists.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from pyiceberg.catalog import Catalog
from pyiceberg.table import Table

from spark_jobs.config.settings import Settings
from spark_jobs.storage.chain import Chain, read_chain
from spark_jobs.storage.iceberg.catalog import open_catalog
from spark_jobs.storage.iceberg.commits import find_table
from spark_jobs.storage.iceberg.found_metadata import FoundMetadata, TableName, enter_table
from spark_jobs.storage.iceberg.holdings import (
    Share,
    Tables,
    find_losses,
    lost_shares,
    published_shares,
)
from spark_jobs.storage.iceberg.run_targets import TableKey, publish_again
from spark_jobs.storage.identity import locked_lake, open_at_home
from spark_jobs.storage.object_store import ObjectStore
from spark_jobs.storage.run_folder import RunFolder, read_inputs

OnProgress = Callable[[str], None]


class RepairKind(StrEnum):
    """How a table gets back what it lacks."""

    ENTER = "enter"
    PUBLISH = "publish"
    LOST = "lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class Repair:
    """One thing to do to one table, or a share of a run that the lake has no files of any more."""

    kind: RepairKind
    table: TableKey
    name: TableName = ()
    metadata: str = ""
    share: Share | None = field(default=None, repr=False)
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
                    enter_table(catalog, each.name, each.metadata)
                elif each.kind is RepairKind.PUBLISH and each.share is not None:
                    folder = RunFolder(lake, read_inputs(lake, each.share.run_id))
                    publish_again(catalog, settings, folder, only=each.table)
        return planned


def _planned(settings: Settings, lake: ObjectStore, chain: Chain, catalog: Catalog) -> Iterator[Repair]:
    shares, tables = published_shares(lake, chain), Tables(catalog, settings)
    metadata = FoundMetadata(settings, lake)
    for loss in find_losses(catalog, settings, shares, chain, strict=True):
        held, lost = shares[loss.table], loss.shares
        standing = None if loss.missing else tables.find(loss.table)
        found = metadata.newest(loss.table, standing, is_whole=_wholeness(held, chain))
        name = _name(catalog, settings, loss.table, found, standing)
        if found is not None and name:
            place = found.metadata_location
            yield Repair(kind=RepairKind.ENTER, table=loss.table, name=name, metadata=place)
            lost = lost_shares(found, held, chain, strict=True)
        for share in lost:
            gone = next((file for file in sorted(share.files) if not _exists(lake, file)), "")
            kind = RepairKind.LOST if gone else RepairKind.PUBLISH
            yield Repair(kind=kind, table=loss.table, share=share, gone=gone)


def _name(
    catalog: Catalog, settings: Settings, key: TableKey, found: Table | None, standing: Table | None
) -> TableName:
    """What the catalog shall call the table: what it calls it, else like its directory; empty if taken."""
    if standing is not None:
        return standing.name()
    if found is None:
        return ()
    namespace = settings.catalog.namespace if key.topic is None else settings.catalog.topics
    name = (namespace, found.location().rpartition("/")[2])
    return name if find_table(catalog, name) is None else ()


def _wholeness(shares: tuple[Share, ...], chain: Chain) -> Callable[[Table], bool]:
    return lambda table: not lost_shares(table, shares, chain, strict=True)


def _exists(lake: ObjectStore, address: str) -> bool:
    return lake.stat(address.removeprefix(f"{lake.url}/")) is not None
