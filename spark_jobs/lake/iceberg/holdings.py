"""What the catalog's tables hold: compared with the runs that the chain lists as published, or by table.

Only metadata is compared: a table's current row count, its tags and snapshots. Where these do not match, the
files are compared. A run's share of a table is lost if its files are not in the table and the table has no
trace of the run: no tag and no snapshot. With a trace the table did hold the share, and a backfill, a
rollback or another engine removed it.
"""

from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import date

from pyiceberg.catalog import Catalog
from pyiceberg.table import Table

from spark_jobs.config.settings import Settings
from spark_jobs.flow import Step
from spark_jobs.lake.chain import Chain, ChainEntry
from spark_jobs.lake.errors import CatalogDiffers
from spark_jobs.lake.iceberg.catalog import open_catalog
from spark_jobs.lake.iceberg.commits import files_of, find_table
from spark_jobs.lake.iceberg.expiry import current_files, run_of
from spark_jobs.lake.iceberg.run_targets import TableKey, data_files, listed_tables, run_file
from spark_jobs.lake.iceberg.target import RUN_DATE_PROPERTY, TableName, TableTarget
from spark_jobs.lake.iceberg.topic_tables import TopicTables, topic_contract, topic_of
from spark_jobs.lake.layout import step_key
from spark_jobs.lake.object_store import ObjectStore
from spark_jobs.lake.run_folder import DONE, RunFolder, read_inputs
from spark_jobs.tables.publish import OWN_TABLES, RUNS

READERS = 16

MOST_NAMED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class RunHolding:
    """The files and rows of one published run in one table."""

    run_id: str
    day: date
    files: frozenset[str]
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """The shares that a table lacks; `missing` if the catalog does not list the table."""

    table: TableKey
    missing: bool
    shares: tuple[RunHolding, ...]

    @property
    def rows(self) -> int:
        return sum(share.rows for share in self.shares)

    def __str__(self) -> str:
        runs = f"{len(self.shares)} published runs with {self.rows:,} rows"
        if self.missing:
            return f"{self.table} is missing from the catalog ({runs})"
        return f"{self.table} lacks {runs}, the newest is {self.shares[-1].run_id}"


Shares = Mapping[TableKey, tuple[RunHolding, ...]]
"""The shares of each table by ascending date."""


def published_shares(lake: ObjectStore, chain: Chain) -> Shares:
    """What tables should hold according to the chain: the shares of every current run."""
    runs = [entry for entry in chain.current.values() if entry.is_published]
    with ThreadPoolExecutor(READERS) as readers:
        found = list(readers.map(lambda entry: _shares_of(lake, entry), runs))
    tables = dict[TableKey, list[RunHolding]]()
    for name, share in (pair for of_run in found for pair in of_run):
        tables.setdefault(name, []).append(share)
    return {name: tuple(shares) for name, shares in tables.items()}


def check_holdings(
    catalog: Catalog, settings: Settings, lake: ObjectStore, chain: Chain, *, but: date | None = None
) -> None:
    """Raises `CatalogDiffers` if a published run is lost; the date `but` is not checked."""
    shares = published_shares(lake, chain)
    losses = list(find_losses(catalog, settings, shares, chain, but=but))
    if losses:
        named = "; ".join(str(each) for each in losses[:MOST_NAMED])
        more = f"; and {len(losses) - MOST_NAMED} more tables" if len(losses) > MOST_NAMED else ""
        raise CatalogDiffers(
            f"{lake.url}: the {settings.catalog.kind} catalog lacks what the chain lists as published: "
            f"{named}{more}. Nothing was published. `onceover repair --dry-run` lists what can be restored "
            "from this lake and `onceover repair` restores it; or restore the catalog from a backup"
        )


def check_catalog(settings: Settings, lake: ObjectStore, chain: Chain) -> None:
    """The same with a catalog opened here; a lake without published runs needs none."""
    if any(entry.is_published for entry in chain.current.values()):
        with open_catalog(settings, read_only=True) as catalog:
            check_holdings(catalog, settings, lake, chain)


def find_losses(
    catalog: Catalog,
    settings: Settings,
    shares: Shares,
    chain: Chain,
    *,
    but: date | None = None,
    strict: bool = False,
) -> Iterator[Loss]:
    """A loss for every table that lacks shares; see `lost_shares`."""
    tables = Tables(catalog, settings)
    for key, held in sorted(shares.items(), key=lambda item: item[0].order):
        expected = tuple(share for share in held if share.day != but)
        table = tables.find(key) if expected else None
        lost = lost_shares(table, expected, chain, strict=strict)
        if lost:
            yield Loss(table=key, missing=table is None, shares=lost)


class Tables:
    """The tables that a catalog has now."""

    def __init__(self, catalog: Catalog, settings: Settings) -> None:
        self._catalog, self._own = catalog, settings.catalog.namespace
        self._topics = TopicTables(catalog, settings.catalog.topics)

    def find(self, key: TableKey) -> Table | None:
        """The table, if there is one."""
        if key.topic is None:
            return find_table(self._catalog, (self._own, key.own))
        return self._topics.find(key.topic)


def lost_shares(
    table: Table | None, shares: tuple[RunHolding, ...], chain: Chain, *, strict: bool = False
) -> tuple[RunHolding, ...]:
    """The shares that the table lost; without a table, all of them.

    With `strict`, also those that an unfinished backfill or rollback removed.
    """
    if table is None or not shares:
        return shares
    traces = traces_of(table)
    if shares[-1].run_id in traces and _total_rows(table) >= sum(share.rows for share in shares):
        return ()
    files = set(current_files(table))
    known = {entry.run_id for entry in chain.entries}
    undone = {day for run_id, day in _dates_of(table).items() if run_id not in known}
    is_ours = all(run_of(snapshot) for snapshot in table.snapshots())
    absent = tuple(share for share in shares if not share.files <= files)
    if strict and is_ours:
        return absent
    lost = tuple(
        share for share in absent if share.run_id not in traces and share.day.isoformat() not in undone
    )
    return lost if is_ours else tuple(share for share in lost if share is shares[-1])


def traces_of(table: Table) -> set[str]:
    """Runs that the table has a tag or a snapshot of."""
    return {*table.refs(), *(run_of(snapshot) for snapshot in table.snapshots())}


def _shares_of(lake: ObjectStore, entry: ChainEntry) -> Iterable[tuple[TableKey, RunHolding]]:
    if lake.stat(step_key(entry.run_id, Step.PUBLISH, DONE)) is None:
        return []  # a rollback or a backfill has begun to remove it
    folder = RunFolder(lake, read_inputs(lake, entry.run_id))
    tables = {name: list(data_files(folder, entries)) for name, entries in listed_tables(folder).items()}
    tables[TableKey(None, RUNS.name)] = [run_file(folder)]
    return [
        (
            name,
            RunHolding(
                run_id=entry.run_id,
                day=entry.day,
                files=frozenset(file.location for file in files),
                rows=sum(file.rows for file in files),
            ),
        )
        for name, files in tables.items()
    ]


def _total_rows(table: Table) -> int:
    snapshot = table.metadata.current_snapshot()
    properties = snapshot.summary.additional_properties if snapshot and snapshot.summary else {}
    return int(properties.get("total-records", 0))


def _dates_of(table: Table) -> dict[str, str]:
    """The run date in the snapshots of each run."""
    return {
        run_of(each): each.summary.additional_properties[RUN_DATE_PROPERTY]
        for each in table.snapshots()
        if each.summary is not None and RUN_DATE_PROPERTY in each.summary.additional_properties
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedTable:
    """A table as one run published it; `location` is an address: `s3://…` or `file://…`."""

    snapshot_id: int
    location: str


def published_tables(settings: Settings, run_id: str) -> dict[str, PublishedTable]:
    """Every table with the run's tag, by `namespace.table`."""
    with open_catalog(settings) as catalog:
        found = {name: _tagged(catalog.load_table(name), run_id) for name in table_names(catalog, settings)}
    return {name: table for name, table in found.items() if table is not None}


def table_names(catalog: Catalog, settings: Settings) -> list[str]:
    """All tables of topics, then Onceover's own."""
    namespaces = (settings.catalog.topics, settings.catalog.namespace)
    return [".".join(table) for each in namespaces for table in sorted(catalog.list_tables(each))]


def _tagged(table: Table, run_id: str) -> PublishedTable | None:
    ref, location = table.refs().get(run_id), table.location()
    address = location if "://" in location else f"file://{location}"
    return PublishedTable(snapshot_id=ref.snapshot_id, location=address) if ref else None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicTable:
    """The table of a topic; `metadata` is its current metadata file."""

    topic: str
    name: str
    location: str
    metadata: str
    rows: int


def topic_tables(settings: Settings, known: Container[str] = ()) -> Iterator[TopicTable]:
    """The tables of topics by name; those that are `known` by `namespace.table` are not loaded."""
    with open_catalog(settings, read_only=True) as catalog:
        for name in sorted(catalog.list_tables(settings.catalog.topics)):
            table = find_table(catalog, name) if ".".join(name) not in known else None
            topic = topic_of(table)
            if table is not None and topic is not None:
                yield TopicTable(
                    topic=topic,
                    name=".".join(name),
                    location=table.location(),
                    metadata=table.metadata_location,
                    rows=rows_of(table),
                )


def rows_of(table: Table) -> int:
    """The table's row count, from its newest snapshot."""
    snapshot = table.current_snapshot()
    if snapshot is None:
        return 0
    properties = snapshot.summary.additional_properties if snapshot.summary else {}
    if "total-records" in properties:
        return int(properties["total-records"])
    return sum(task.file.record_count for task in table.scan().plan_files())


def leftover_targets(
    catalog: Catalog, settings: Settings, day: date, topics: Collection[str], own: Collection[TableName]
) -> Iterator[TableTarget]:
    """Targets without files for tables in which only an earlier run has published rows of `day`.

    Tables of `topics` and `own` tables are left out: this run publishes them.
    """
    for namespace in (settings.catalog.topics, settings.catalog.namespace):
        for name in sorted(catalog.list_tables(namespace)):
            table = None if name in own else find_table(catalog, name)
            target = _target(table, settings, name) if table is not None else None
            if table is None or target is None or target.topic in topics:
                continue
            if files_of(table, day):
                yield target


def _target(table: Table, settings: Settings, name: TableName) -> TableTarget | None:
    """The table if it is Onceover's, None if it belongs to another application."""
    topic, own = topic_of(table), OWN_TABLES.get(name[-1])
    if topic is not None:
        contract = topic_contract(settings, topic, name[-1])
        return TableTarget(namespace=name[0], contract=contract, topic=topic)
    return TableTarget(namespace=name[0], contract=own) if own is not None else None
