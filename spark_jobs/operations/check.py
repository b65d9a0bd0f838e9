"""Verifies a whole lake: its location, its chain, its runs with their states and objects, its tables.

By default the check reads no data: it compares `_done.json` files, sizes, and digests of small files. A deep
check reads every byte. Nothing is written, so a copy of a lake, which is read-only, can be checked as well.
"""

import hashlib
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from pathlib import Path

from pyiceberg.catalog import Catalog
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table

from spark_jobs.config.settings import Settings
from spark_jobs.flow import OPTIONAL, Step, steps_until
from spark_jobs.kafka.errors import OnceoverError
from spark_jobs.lake.accepted_log import LOG, segment_digest
from spark_jobs.lake.chain import Chain, ChainEntry, read_entries
from spark_jobs.lake.errors import ObjectMissing
from spark_jobs.lake.folds import read_folds
from spark_jobs.lake.iceberg.catalog import has_catalog, open_catalog
from spark_jobs.lake.iceberg.commits import find_table
from spark_jobs.lake.iceberg.expiry import current_files, named_files, run_of
from spark_jobs.lake.iceberg.holdings import (
    Loss,
    RunHolding,
    Shares,
    find_losses,
    published_shares,
    table_names,
)
from spark_jobs.lake.iceberg.run_targets import TableKey
from spark_jobs.lake.iceberg.topic_tables import topic_of
from spark_jobs.lake.id_index import read_index_rows
from spark_jobs.lake.identity import check_home, home_of, read_identity
from spark_jobs.lake.layout import (
    EXPIRY,
    LEDGER,
    OBJECTS,
    RUNS,
    STATE,
    object_key,
    run_key,
    state_key,
    step_key,
)
from spark_jobs.lake.ledger import read_line
from spark_jobs.lake.lock import current_holder
from spark_jobs.lake.manifest import read_run_manifest
from spark_jobs.lake.object_store import ObjectStore, printable
from spark_jobs.lake.replays import read_decisions
from spark_jobs.lake.run_folder import DONE, OutputFile, RunFolder, StepDone, combine_states, read_inputs
from spark_jobs.lake.states import STATE_STEPS, read_states
from spark_jobs.lake.stores import open_lake
from spark_jobs.operations.expire import Cutoffs, cutoffs_of, inherited_by
from spark_jobs.tables.publish import OWN_TABLES
from spark_jobs.tables.states import FOLDS, STATES

OnProgress = Callable[[str], None]


class FindingSeverity(StrEnum):
    """An error means wrong or incomplete content; a note needs no action."""

    ERROR = "error"
    NOTE = "note"


class Part(StrEnum):
    """The part of the lake that a finding is about."""

    IDENTITY = "identity"
    CHAIN = "chain"
    RUNS = "runs"
    STATES = "states"
    OBJECTS = "objects"
    TABLES = "tables"
    LEDGER = "ledger"
    REPLAYS = "replays"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """`place` is an address, a run or a table; `remedy` says what to do, empty if no action is needed."""

    part: Part
    place: str
    problem: str
    remedy: str = ""
    severity: FindingSeverity = FindingSeverity.ERROR


RESTORE = "restore it from a backup of the lake"
NAMED = 5
"""Files of one kind that are listed individually; the others are only counted."""


@dataclass(frozen=True)
class CheckedLake:
    """A lake's listing for the checks; a `deep` check compares every byte with its digest."""

    store: ObjectStore
    chain: Chain
    cutoffs: Cutoffs
    deep: bool

    @cached_property
    def states(self) -> dict[str, int]:
        """Sizes of state files, by the digest that names them."""
        return {found.key.rpartition("/")[2]: found.size for found in self.store.list(STATE)}

    @cached_property
    def objects(self) -> dict[str, int]:
        """Sizes of staged objects, by their digests."""
        return {found.key.rpartition("/")[2]: found.size for found in self.store.list(OBJECTS)}

    def sizes(self, run_id: str) -> dict[str, int]:
        """Sizes of a run's files, by path below its folder."""
        prefix = run_key(run_id) + "/"
        return {found.key.removeprefix(prefix): found.size for found in self.store.list(prefix)}


def check_run(lake: CheckedLake, entry: ChainEntry) -> Iterator[Finding]:
    """All checks of a current run."""
    place = lake.store.url_of(run_key(entry.run_id))
    try:
        inputs = read_inputs(lake.store, entry.run_id)
    except OnceoverError as error:
        yield Finding(part=Part.RUNS, place=place, problem=str(error), remedy=RESTORE)
        return
    expected = (entry.run_id, entry.day, entry.manifest, entry.config, entry.state_in)
    if (inputs.run_id, inputs.day, inputs.manifest, inputs.config, inputs.state_in) != expected:
        problem = "its inputs.json does not match its name and its chain entry"
        yield Finding(part=Part.RUNS, place=place, problem=problem, remedy=RESTORE)
        return
    yield from _check_steps(lake, entry, RunFolder(lake.store, inputs))
    yield from _check_states(lake, entry)
    yield from _check_objects(lake, entry)


def check_contents(lake: CheckedLake, on_progress: Callable[[str], None]) -> Iterator[Finding]:
    """Findings for states and staged objects whose content differs from their names; reads all of them."""
    named = [(Part.STATES, state_key(each)) for each in lake.states]
    named += [(Part.OBJECTS, object_key(each)) for each in lake.objects]
    for number, (part, key) in enumerate(named, start=1):
        on_progress(f"check: {number} of {len(named)} states and objects")
        if content_digest(lake.store, key) != key.rpartition("/")[2]:
            place, problem = lake.store.url_of(key), "the SHA-256 of its content differs from its name"
            yield Finding(part=part, place=place, problem=problem, remedy=RESTORE)


def content_digest(store: ObjectStore, key: str) -> str:
    """SHA-256 of an object's bytes."""
    digest = hashlib.sha256()
    for chunk in store.chunks(key):
        digest.update(chunk)
    return digest.hexdigest()


def _check_steps(lake: CheckedLake, entry: ChainEntry, folder: RunFolder) -> Iterator[Finding]:
    """Each step's `_done.json`: whether it follows from the step before, and the outputs that it lists."""
    sizes, again = lake.sizes(entry.run_id), f"`onceover run --date {entry.day}` does the step again"
    marks: list[StepDone] = []
    for step in steps_until(entry.last_step):
        place = lake.store.url_of(folder.key(step, DONE))
        try:
            mark = folder.marked(step)
        except OnceoverError as error:
            yield Finding(part=Part.RUNS, place=place, problem=str(error))
            return
        if mark is None and step in OPTIONAL:
            continue
        if mark is None:
            problem = f"{step} is not marked as done, though the chain lists it"
            yield Finding(part=Part.RUNS, place=place, problem=problem, remedy=again)
            return
        if mark.after != (marks[-1].digest if marks else ""):
            problem = f"{step} does not follow from the step before it"
            yield Finding(part=Part.RUNS, place=place, problem=problem, remedy=again)
        marks.append(mark)
        yield from _check_outputs(lake, folder, mark, sizes, remedy=again)
    states = combine_states({mark.step: mark.state for mark in marks})
    if (marks[-1].digest, states) != (entry.outputs, entry.state_out):
        problem = "the digests of its steps differ from its chain entry"
        place = lake.store.url_of(run_key(entry.run_id))
        yield Finding(part=Part.RUNS, place=place, problem=problem, remedy=RESTORE)


def _check_outputs(
    lake: CheckedLake, folder: RunFolder, mark: StepDone, sizes: Mapping[str, int], *, remedy: str
) -> Iterator[Finding]:
    problems: list[tuple[OutputFile, str]] = []
    for output in mark.outputs:
        size = sizes.get(f"{mark.step}/{output.path}")
        if size is None and not folder.is_expired:
            problems.append((output, "is missing"))
        elif size is not None and size != output.size:
            problems.append((output, f"has {size:,} bytes, expected {output.size:,}"))
        elif size is not None and lake.deep and not _is_intact(lake.store, folder, mark.step, output):
            problems.append((output, "its content differs from its digest"))
    for output, problem in problems[:NAMED]:
        place = lake.store.url_of(folder.key(mark.step, output.path))
        yield Finding(part=Part.RUNS, place=printable(place), problem=problem, remedy=remedy)
    if len(problems) > NAMED:
        place = lake.store.url_of(folder.key(mark.step))
        problem = f"{len(problems) - NAMED:,} more files are missing or differ"
        yield Finding(part=Part.RUNS, place=place, problem=problem, remedy=remedy)


def _is_intact(store: ObjectStore, folder: RunFolder, step: Step, output: OutputFile) -> bool:
    is_segment = output.path.startswith(LOG) and output.path.endswith(".log")
    digest = _segment_digest if is_segment else content_digest
    return digest(store, folder.key(step, output.path)) == output.digest


def _segment_digest(store: ObjectStore, key: str) -> str:
    """The digest of a segment of an accepted log, from the checksums of its batches."""
    path = store.local_path(key)
    if path is not None:
        return segment_digest(path)
    with tempfile.NamedTemporaryFile() as copy:
        for chunk in store.chunks(key):
            copy.write(chunk)
        copy.flush()
        return segment_digest(Path(copy.name))


def _check_states(lake: CheckedLake, entry: ChainEntry) -> Iterator[Finding]:
    """The state files of the run; of the newest run, also the files that they refer to."""
    try:
        digests = set(_state_files(lake.store, entry.run_id))
        if entry is list(lake.chain.current.values())[-1]:
            digests |= set(inherited_by(lake.store, entry.run_id))
    except OnceoverError as error:
        yield Finding(part=Part.STATES, place=entry.run_id, problem=str(error), remedy=RESTORE)
        return
    for digest in sorted(digests - lake.states.keys())[:NAMED]:
        problem = f"is missing; it is part of the state of {entry.run_id}"
        place = lake.store.url_of(state_key(digest))
        yield Finding(part=Part.STATES, place=place, problem=problem, remedy=RESTORE)


def _state_files(store: ObjectStore, run_id: str) -> Iterator[str]:
    """Digests of the state files that the run hands to the next one."""
    for step in STATE_STEPS:
        if store.stat(step_key(run_id, step, STATES.file)) is not None:
            yield from read_states(store, run_id, step).values()
    if store.stat(step_key(run_id, Step.RESOLVE, FOLDS.file)) is not None:
        yield from read_folds(store, run_id).values()
    yield from (row["digest"] for row in read_index_rows(store, run_id) if row["digest"])


def _check_objects(lake: CheckedLake, entry: ChainEntry) -> Iterator[Finding]:
    """The manifest, and the copies of objects that it names; of old runs an expiry may have removed them."""
    place = entry.run_id
    try:
        manifest = read_run_manifest(lake.store, entry.run_id)
    except OnceoverError as error:
        yield Finding(part=Part.RUNS, place=place, problem=str(error), remedy=RESTORE)
        return
    if manifest.digest != entry.manifest:
        problem = "the digest of its manifest differs from its chain entry"
        yield Finding(part=Part.RUNS, place=place, problem=problem, remedy=RESTORE)
    copied = {each.sha256: each.size for each in manifest.entries if not (each.referenced or each.inherited)}
    wrong = sorted(sha for sha, size in copied.items() if lake.objects.get(sha) != size)
    if not wrong or lake.cutoffs.is_old(entry.run_id, lake.cutoffs.staged):
        return
    problem = (
        f"is missing or has another size; {entry.run_id} has read it, and {len(wrong) - 1:,} more like it"
    )
    address = lake.store.url_of(object_key(wrong[0]))
    yield Finding(part=Part.OBJECTS, place=address, problem=problem, remedy=RESTORE)


REPAIR = "`onceover repair --dry-run` lists what can be restored, `onceover repair` restores it"


@dataclass(frozen=True)
class CheckedTables:
    """The tables of a lake, with the sizes of all files of runs."""

    settings: Settings
    lake: ObjectStore
    chain: Chain
    sizes: Mapping[str, int] = field(repr=False)

    def findings(self, on_progress: OnProgress) -> Iterator[Finding]:
        """All findings about the tables; nothing is written, also if the catalog is missing."""
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
            yield _error(str(loss.table), _describe_loss(loss), REPAIR)
        names = table_names(catalog, self.settings)
        for number, name in enumerate(names, start=1):
            on_progress(f"check: {number} of {len(names)} tables")
            try:
                table = find_table(catalog, tuple(name.split(".")))
                if table is not None:
                    yield from self._check_table(name, table, shares, losses)
            except Exception as error:  # noqa: BLE001 — damaged metadata can raise any exception
                yield _error(name, f"cannot be read ({type(error).__name__}: {error})", RESTORE)

    def _check_table(
        self, name: str, table: Table, shares: Shares, losses: Mapping[TableKey, Loss]
    ) -> Iterator[Finding]:
        topic, own = topic_of(table), name.rpartition(".")[2]
        if topic is None and own not in OWN_TABLES:
            return  # a table of another application in the same namespace
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
        self, name: str, table: Table, shares: Sequence[RunHolding], *, is_whole: bool
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


def _describe_loss(loss: Loss) -> str:
    runs = f"{len(loss.shares)} published runs with {loss.rows:,} rows"
    return f"is not in the catalog: {runs}" if loss.missing else f"lacks {runs}"


def _error(place: str, problem: str, remedy: str) -> Finding:
    return Finding(part=Part.TABLES, place=place, problem=problem, remedy=remedy)


def _note(place: str, problem: str) -> Finding:
    return Finding(part=Part.TABLES, place=place, problem=problem, severity=FindingSeverity.NOTE)


def check(
    settings: Settings, *, deep: bool = False, on_progress: OnProgress = lambda _: None
) -> Iterator[Finding]:
    """All findings about the lake, part by part."""
    lake = open_lake(settings)
    chain, broken = read_entries(lake)
    if not chain.entries and read_identity(lake) is None and not broken:
        raise ObjectMissing(f"{lake.url}: there is no lake here: no chain of runs, no lake.json")
    yield from _check_holder(lake)
    moved = list(_check_identity(settings, lake, chain))
    yield from moved
    for problem in broken:
        yield Finding(part=Part.CHAIN, place=lake.url, problem=problem, remedy=RESTORE)
    for entry in chain.stale():
        problem = f"{entry.run_id} did not start from the state that the run before it ended in"
        remedy = f"`onceover backfill --from {entry.day} --to {entry.day}` runs it again"
        yield Finding(part=Part.CHAIN, place=lake.url, problem=problem, remedy=remedy)
    yield from _check_runs(settings, lake, chain, deep=deep, on_progress=on_progress)
    yield from _check_small_files(lake)
    if not any(finding.severity is FindingSeverity.ERROR for finding in moved):
        sizes = {found.key: found.size for found in lake.list(RUNS)}
        yield from CheckedTables(settings, lake, chain, sizes).findings(on_progress)


def _check_holder(lake: ObjectStore) -> Iterator[Finding]:
    holder = current_holder(lake)
    if holder is not None:
        problem = f"{holder} works on the lake: findings may be about its unfinished work"
        yield Finding(part=Part.RUNS, place=lake.url, problem=problem, severity=FindingSeverity.NOTE)


def _check_identity(settings: Settings, lake: ObjectStore, chain: Chain) -> Iterator[Finding]:
    try:
        check_home(lake, home_of(settings, lake))
        identity = read_identity(lake)
    except OnceoverError as error:
        yield Finding(part=Part.IDENTITY, place=lake.url, problem=str(error))
        return
    if identity is None and chain.entries:
        problem = "has no lake.json, as made by an older version; the next run writes it"
        yield Finding(part=Part.IDENTITY, place=lake.url, problem=problem, severity=FindingSeverity.NOTE)


def _check_runs(
    settings: Settings, lake: ObjectStore, chain: Chain, *, deep: bool, on_progress: OnProgress
) -> Iterator[Finding]:
    cutoffs = cutoffs_of(chain, settings.retention)
    checked = CheckedLake(store=lake, chain=chain, cutoffs=cutoffs, deep=deep)
    for number, entry in enumerate(chain.current.values(), start=1):
        on_progress(f"check: {number} of {len(chain.current)} runs")
        yield from check_run(checked, entry)
    if deep:
        yield from check_contents(checked, on_progress)


def _check_small_files(lake: ObjectStore) -> Iterator[Finding]:
    """The ledger, decisions to replay, and traces of an interrupted expiry."""
    for key in [found.key for found in lake.list(LEDGER)]:
        try:
            read_line(lake, key)
        except OnceoverError as error:
            yield Finding(part=Part.LEDGER, place=lake.url_of(key), problem=str(error))
    try:
        missing = [each for each in read_decisions(lake) if lake.stat(object_key(each.sha256)) is None]
    except OnceoverError as error:
        yield Finding(part=Part.REPLAYS, place=lake.url, problem=str(error))
        missing = []
    for replay in missing:
        problem = f"is missing; the decision {replay.decision} to replay it needs it"
        place = lake.url_of(object_key(replay.sha256))
        yield Finding(part=Part.REPLAYS, place=place, problem=problem, remedy=RESTORE)
    if any(True for _ in lake.list(EXPIRY)):
        problem = "an expiry was interrupted; `onceover expire` finishes it"
        yield Finding(part=Part.TABLES, place=lake.url, problem=problem, severity=FindingSeverity.NOTE)
