"""A lake verified whole: where it is, its chain, its runs, the states and objects behind them, its tables.

By default everything is checked that needs no reading of data: marks, digests of what is small, sizes. A deep
check reads every byte. Nothing is written, so a copy that must not be written to can be checked as well.
"""

from collections.abc import Iterator

from spark_jobs.checking.finding import Finding, OnProgress, Part, Severity
from spark_jobs.checking.run_folders import CheckedLake, check_contents, check_run
from spark_jobs.checking.tables import CheckedTables
from spark_jobs.config.settings import Settings
from spark_jobs.expiring.cutoffs import cutoffs_of
from spark_jobs.protocol.errors import OnceoverError
from spark_jobs.storage.chain import Chain, read_entries
from spark_jobs.storage.errors import ObjectMissing
from spark_jobs.storage.identity import check_home, home_of, read_identity
from spark_jobs.storage.layout import EXPIRY, LEDGER, RUNS, object_key
from spark_jobs.storage.ledger import read_line
from spark_jobs.storage.lock import current_holder
from spark_jobs.storage.object_store import ObjectStore
from spark_jobs.storage.replays import read_decisions
from spark_jobs.storage.stores import open_lake

RESTORE = "restore it from a backup of the lake"


def check(
    settings: Settings, *, deep: bool = False, on_progress: OnProgress = lambda _: None
) -> Iterator[Finding]:
    """Everything that is wrong with the lake, or worth knowing, part by part."""
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
    if not any(finding.severity is Severity.ERROR for finding in moved):
        sizes = {found.key: found.size for found in lake.list(RUNS)}
        yield from CheckedTables(settings, lake, chain, sizes).findings(on_progress)


def _check_holder(lake: ObjectStore) -> Iterator[Finding]:
    holder = current_holder(lake)
    if holder is not None:
        problem = f"{holder} works on the lake: what it has not finished may be among the findings"
        yield Finding(part=Part.RUNS, place=lake.url, problem=problem, severity=Severity.NOTE)


def _check_identity(settings: Settings, lake: ObjectStore, chain: Chain) -> Iterator[Finding]:
    try:
        check_home(lake, home_of(settings, lake))
        identity = read_identity(lake)
    except OnceoverError as error:
        yield Finding(part=Part.IDENTITY, place=lake.url, problem=str(error))
        return
    if identity is None and chain.entries:
        problem = "has no lake.json, as made by an older version; the next run writes it"
        yield Finding(part=Part.IDENTITY, place=lake.url, problem=problem, severity=Severity.NOTE)


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
    """The ledger, decisions to replay, and what an expiry left."""
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
        yield Finding(part=Part.TABLES, place=lake.url, problem=problem, severity=Severity.NOTE)
