"""The published tables: what the chain lists is in them, and every file that they name is there."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pyiceberg.catalog import Catalog
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table

from spark_jobs.checking.finding import Finding, OnProgress, Part, Severity
from spark_jobs.config.settings import Settings
from spark_jobs.protocol.errors import OnceoverError
from spark_jobs.storage.chain import Chain
from spark_jobs.storage.iceberg.catalog import has_catalog, open_catalog
from spark_jobs.storage.iceberg.commits import find_table
from spark_jobs.storage.iceberg.expiry import current_files, named_files, run_of
from spark_jobs.storage.iceberg.holdings import Loss, Share, Shares, find_losses, published_shares
from spark_jobs.storage.iceberg.published import table_names
from spark_jobs.storage.iceberg.run_targets import TableKey
from spark_jobs.storage.iceberg.topic_tables import topic_of
from spark_jobs.storage.layout import RUNS
from spark_jobs.storage.object_store import ObjectStore
from spark_jobs.tables.publish import OWN_TABLES

REPAIR = "`onceover repair --dry-run` lists what can be restored, `onceover repair` restores it"
RESTORE = "restore it from a backup of the lake"
NAMED = 5


@dataclass(frozen=True)
class CheckedTables:
    """The tables of a lake, with the sizes of all files of runs."""

    settings: Settings
    lake: ObjectStore
    chain: Chain
    sizes: Mapping[str, int] = field(repr=False)

    def findings(self, on_progress: OnProgress) -> Iterator[Finding]:
        """Everything about the tables; nothing is written, not even where the catalog is gone."""
        if not has_catalog(self.settings):
            problem = "the catalog file is missing"
            yield _error(self.lake.url, problem, REPAIR)
        try:
            with open_catalog(self.settings, read_only=True) as catalog:
                yield from self._in_catalog(catalog, on_progress)
        except OnceoverError as error:
            yield _error(f"the {self.settings.catalog.kind} catalog", str(error), "")

    def _in_catalog(self, catalog: Catalog, on_progress: OnProgress) -> Iterator[Finding]:
        shares = published_shares(self.lake, self.chain)
        losses = {loss.table: loss for loss in find_losses(catalog, self.settings, shares, self.chain)}
        for loss in losses.values():
            yield _error(str(loss.table), _lack(loss), REPAIR)
        names = table_names(catalog, self.settings)
        for number, name in enumerate(names, start=1):
            on_progress(f"check: {number} of {len(names)} tables")
            try:
                table = find_table(catalog, tuple(name.split(".")))
                if table is not None:
                    yield from self._check_table(name, table, shares, losses)
            except Exception as error:  # noqa: BLE001 — readers of damaged metadata raise whatever they meet
                yield _error(name, f"cannot be read ({type(error).__name__}: {error})", RESTORE)

    def _check_table(
        self, name: str, table: Table, shares: Shares, losses: Mapping[TableKey, Loss]
    ) -> Iterator[Finding]:
        topic, own = topic_of(table), name.rpartition(".")[2]
        if topic is None and own not in OWN_TABLES:
            return  # a table of another application's in the same namespace
        key = TableKey(None, own) if topic is None else TableKey(topic, "")
        yield from self._check_files(name, table)
        yield from self._check_content(name, table, shares.get(key, ()), is_whole=key not in losses)

    def _check_files(self, name: str, table: Table) -> Iterator[Finding]:
        """Data files of all snapshots: inside the lake, existing, and of the size in the manifests."""
        problems = [problem for file in named_files(table) if (problem := self._problem(file))]
        for problem in problems[:NAMED]:
            yield _error(name, problem, RESTORE)
        if len(problems) > NAMED:
            yield _error(name, f"{len(problems) - NAMED:,} more files are missing or differ", RESTORE)

    def _problem(self, file: DataFile) -> str:
        path = file.file_path.removeprefix("file://")
        key = path.removeprefix(f"{self.lake.url}/")
        if key == path and not _is_below(path, self.lake.url):
            return f"{path} is outside of this lake"
        size = self.sizes.get(key if key != path else _key_below(path, self.lake.url))
        if size is None:
            return f"{path} is missing"
        expected = file.file_size_in_bytes
        return f"{path} has {size:,} bytes, expected {expected:,}" if size != expected else ""

    def _check_content(
        self, name: str, table: Table, shares: Sequence[Share], *, is_whole: bool
    ) -> Iterator[Finding]:
        """Whether the table shows the files that the chain lists, and no others."""
        expected = {file for share in shares for file in share.files}
        found = current_files(table)
        is_ours = all(run_of(snapshot) for snapshot in table.snapshots())
        if not is_ours and found != expected:
            problem = "another engine has changed it, so its files are not compared with the chain"
            yield _note(name, problem)
            return
        for run_id in sorted({_run_in(file) for file in found - expected})[:NAMED]:
            advice = f"`onceover run --date {run_id[:10]}` finishes the run, `onceover rollback` removes it"
            yield _error(name, f"holds rows of {run_id}, which the chain does not list as published", advice)
        if is_whole and expected - found:
            problem = f"{len(expected - found):,} files of published runs are not in it any more"
            yield _error(name, problem, REPAIR)


def _is_below(path: str, url: str) -> bool:
    return "://" not in path and Path(path).resolve().is_relative_to(url)


def _key_below(path: str, url: str) -> str:
    return str(Path(path).resolve().relative_to(url))


def _run_in(address: str) -> str:
    return address.rpartition(f"/{RUNS}")[2].partition("/")[0]


def _lack(loss: Loss) -> str:
    runs = f"{len(loss.shares)} published runs with {loss.rows:,} rows"
    return f"is not in the catalog: {runs}" if loss.missing else f"lacks {runs}"


def _error(place: str, problem: str, remedy: str) -> Finding:
    return Finding(part=Part.TABLES, place=place, problem=problem, remedy=remedy)


def _note(place: str, problem: str) -> Finding:
    return Finding(part=Part.TABLES, place=place, problem=problem, severity=Severity.NOTE)
