"""The input objects of a backfilled day: those of its run, and for selected days what the sources hold now.

A source with dates is listed anew, since each object has the date of its day. Without dates an object
belongs to the run that took it first, so only its bytes can differ. A log directory that is copied over
itself shows today's log, not that of the day: its run keeps its inputs. To these come objects of later runs
with offsets that the day's run published past, because no copy had them.
"""

from collections import defaultdict
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import date

from spark_jobs.config.settings import Settings
from spark_jobs.config.sources import Source
from spark_jobs.flow import Step
from spark_jobs.kafka.topic_partition import TopicPartition
from spark_jobs.lake.chain import Chain
from spark_jobs.lake.layout import fetched_key, object_key, step_key
from spark_jobs.lake.manifest import (
    Manifest,
    ManifestEntry,
    Replay,
    SourcePath,
    StageProblem,
    read_run_manifest,
)
from spark_jobs.lake.object_store import ObjectStore
from spark_jobs.lake.parquet_file import read_table
from spark_jobs.lake.replays import FOLDER, due_replays
from spark_jobs.lake.run_folder import RunFolder, read_inputs
from spark_jobs.pipeline.stage.backfill_request import BackfillRequest, UnfitRequest
from spark_jobs.sources.listing import Listing
from spark_jobs.sources.source import Placed
from spark_jobs.sources.taken import (
    Fetched,
    Taken,
    as_manifest,
    entry_of,
    is_updated_in_place,
    new_content,
    not_taken,
)
from spark_jobs.tables.admit import GAPS, GapStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class DayInputs:
    """`kept` entries of the day's run as they were, and objects `listed` now, whose bytes count.

    `missed` are those among `kept` that their source does not have any more.
    """

    kept: tuple[ManifestEntry, ...]
    listed: tuple[Placed, ...] = ()
    problems: tuple[StageProblem, ...] = ()
    missed: tuple[ManifestEntry, ...] = ()


def own_entries(manifest: Manifest) -> tuple[ManifestEntry, ...]:
    """What the run took from sources: everything except replays."""
    replayed = tuple({f"{FOLDER}/{replay.origin}/" for replay in manifest.replays})
    return tuple(entry for entry in manifest.entries if not entry.path.startswith(replayed))


def late_entries(lake: ObjectStore, chain: Chain, day: date) -> tuple[ManifestEntry, ...]:
    """Objects of later runs with offsets that the day's run published past, because no copy had them."""
    found: list[ManifestEntry] = []
    for later in (entry for entry in chain.current.values() if entry.day > day):
        key = step_key(later.run_id, Step.ADMIT, GAPS.file)
        rows = read_table(lake, key).to_pylist() if lake.stat(key) is not None else []
        names = {row["after"] for row in rows if row["status"] == GapStatus.LATE and row["found_on"] == day}
        if names:
            entries = read_run_manifest(lake, later.run_id).entries
            found += (entry for entry in entries if f"{entry.source}/{entry.path}" in names)
    return tuple({(*_where(entry), entry.content): entry for entry in found}.values())


def day_inputs(
    settings: Settings,
    request: BackfillRequest,
    former: Manifest,
    taken: Taken,
    listing: Listing | None,
    *,
    late: Iterable[ManifestEntry] = (),
) -> DayInputs:
    """The inputs of a day; `former` is what its run had, `taken` what runs of earlier dates have now.

    `listing` is what its sources have, None where only the run's own objects count. `late` objects of later
    runs fill gaps that the day's run published past.
    """
    own = tuple(entry for entry in own_entries(former) if not _is_taken_before(settings, entry, taken))
    if listing is None:
        return DayInputs(kept=own, problems=former.problems)
    known = {_where(entry) for entry in own_entries(former)}
    found = tuple(each for each in listing.placed if _is_requested(request, each, known))
    missed = _missed(settings, request, own, found)
    kept = (*(entry for entry in own if not _is_listed(settings, request, entry)), *missed)
    filling = [entry for entry in late if request.takes(entry.source, entry.topic)]
    replaced = {_where(entry) for entry in filling}
    return DayInputs(
        kept=(*(entry for entry in kept if _where(entry) not in replaced), *filling),
        listed=not_taken(found, taken),
        problems=_problems(request, former, listing.problems, found),
        missed=missed,
    )


def _is_taken_before(settings: Settings, entry: ManifestEntry, taken: Taken) -> bool:
    """Whether an earlier run has taken the object."""
    is_taken = taken.has(entry.source, entry.path, entry.content)
    return is_taken and not is_updated_in_place(_source(settings, entry))


def _source(settings: Settings, entry: ManifestEntry) -> Source:
    for source in settings.sources:
        if source.name == entry.source:
            return source
    raise UnfitRequest(
        f"{entry.source}/{entry.path}: the run has taken objects of the source '{entry.source}', which is "
        "no longer configured; configure it again for the backfill"
    )


def _where(entry: ManifestEntry) -> SourcePath:
    return entry.source, entry.path


def _is_requested(request: BackfillRequest, placed: Placed, known: set[SourcePath]) -> bool:
    source = placed.source
    if is_updated_in_place(source) or not request.takes(source.name, placed.topic):
        return False
    return source.dates is not None or (source.name, placed.path) in known


def _is_listed(settings: Settings, request: BackfillRequest, entry: ManifestEntry) -> bool:
    """Whether the source's current object counts rather than the one that the run had."""
    return request.takes(entry.source, entry.topic) and not is_updated_in_place(_source(settings, entry))


def _missed(
    settings: Settings, request: BackfillRequest, own: Iterable[ManifestEntry], found: Iterable[Placed]
) -> tuple[ManifestEntry, ...]:
    """Objects that their source has lost and that are read from the lake."""
    there = {(each.source.name, each.path) for each in found}
    return tuple(
        entry
        for entry in own
        if _is_listed(settings, request, entry)
        and _where(entry) not in there
        and (not entry.referenced or _source(settings, entry).is_fetched)
        and not request.drop_vanished
    )


def _problems(
    request: BackfillRequest, former: Manifest, now: tuple[StageProblem, ...], found: Iterable[Placed]
) -> tuple[StageProblem, ...]:
    """Objects set aside; the topic of a problem is unknown, so it is kept where only some topics are
    selected.
    """
    if request.takes_all:
        return now
    there = {(each.source.name, each.path) for each in found}
    return tuple(each for each in former.problems if (each.source, each.path) not in there)


# The manifest of the day: kept and fetched objects, in arrival order.


def assemble(
    day: date,
    taken: Taken,
    *,
    kept: Iterable[ManifestEntry],
    fetched: Iterable[Fetched],
    problems: Iterable[StageProblem],
) -> Manifest:
    """Compares kept entries with what earlier runs have taken by now."""
    seen = (_seen(entry, taken) for entry in kept)
    new = (entry_of(each, taken) for each in new_content(fetched, taken))
    return as_manifest(day, (*seen, *new), problems)


def _seen(entry: ManifestEntry, taken: Taken) -> ManifestEntry:
    return replace(entry, seen=taken.has(entry.source, entry.path, entry.content))


def with_kept_orders(manifest: Manifest, former: Manifest) -> Manifest:
    """Partitions whose objects are as they were keep their numbers, and with them their bytes downstream.

    Where that takes other numbers than arrival gives, the others are numbered behind all of them; within a
    partition orders ascend by arrival in any case.
    """
    before, now = _by_partition(former.entries), _by_partition(manifest.entries)
    same = {partition: known for partition, known in before.items() if _same(known, now.get(partition, []))}
    if all(_orders(known) == _orders(now[partition]) for partition, known in same.items()):
        return manifest
    unused = max((entry.order for entry in former.entries), default=-1) + 1
    entries: list[ManifestEntry] = []
    for partition, found in now.items():
        orders = _orders(same.get(partition, []))
        if not orders:
            orders = list(range(unused, unused + len(found)))
            unused += len(found)
        entries += [replace(entry, order=order) for entry, order in zip(found, orders, strict=True)]
    return replace(manifest, entries=tuple(entries))


def _same(known: list[ManifestEntry], found: list[ManifestEntry]) -> bool:
    return list(map(_object, found)) == list(map(_object, known))


def _orders(entries: list[ManifestEntry]) -> list[int]:
    return [entry.order for entry in entries]


def same_inputs(one: Manifest, other: Manifest) -> bool:
    """Whether both have the same objects and take the same up again; what was set aside decides nothing."""
    return _decisive(one) == _decisive(other)


def _decisive(manifest: Manifest) -> tuple[object, ...]:
    return (
        sorted(map(_object, manifest.entries), key=str),
        sorted(each.decision for each in manifest.replays),
    )


def _object(entry: ManifestEntry) -> ManifestEntry:
    """What makes an object another one; its topic id follows from the bytes of `partition.metadata`."""
    version = entry.version if entry.is_by_headers else ""
    return replace(entry, order=0, version=version, referenced=False, seen=False, topic_id="", copied_at=0)


def _by_partition(entries: Iterable[ManifestEntry]) -> dict[TopicPartition, list[ManifestEntry]]:
    found: dict[TopicPartition, list[ManifestEntry]] = defaultdict(list)
    for entry in entries:
        found[TopicPartition(entry.topic, entry.partition)].append(entry)
    return found


# Whether an old run can still be repeated: its staged objects may have expired.

READERS = 16


def check_copies(settings: Settings, lake: ObjectStore, run_id: str, kept: Iterable[ManifestEntry]) -> None:
    """Raises `UnfitRequest` if bytes have expired that the run would be run on again."""
    is_expired = RunFolder(lake, read_inputs(lake, run_id)).is_expired
    read = (entry for entry in kept if not entry.inherited and (is_expired or entry.referenced))
    _check(settings, lake, run_id, read)


def check_no_longer_inherited(
    settings: Settings, lake: ObjectStore, run_id: str, former: Manifest, manifest: Manifest
) -> None:
    """Raises `UnfitRequest` if the day has to read bytes that its run inherited and that have expired.

    Earlier days may have been run again without them since.
    """
    inherited = {(entry.source, entry.path) for entry in former.entries if entry.inherited}
    read = (e for e in manifest.entries if not e.inherited and (e.source, e.path) in inherited)
    _check(settings, lake, run_id, read)


def _check(settings: Settings, lake: ObjectStore, run_id: str, entries: Iterable[ManifestEntry]) -> None:
    in_lake = [(entry, key) for entry in entries if (key := _key_in_lake(settings, entry))]
    with ThreadPoolExecutor(READERS) as readers:
        found = readers.map(lambda each: lake.stat(each[1]), in_lake)
    expired = [entry for (entry, _), stat in zip(in_lake, found, strict=True) if stat is None]
    if expired:
        raise UnfitRequest(
            f"{run_id}: the lake's copies of {len(expired)} objects have expired, such as "
            f"{expired[0].source}/{expired[0].path}: without them the day cannot run again"
        )


def _key_in_lake(settings: Settings, entry: ManifestEntry) -> str:
    """Where the lake has the object's bytes; empty if they are read at a source outside."""
    if not entry.referenced:
        return object_key(entry.sha256)
    return fetched_key(entry.source, entry.path) if _source(settings, entry).is_fetched else ""


# The replays of the day.


def replays_of_day(
    lake: ObjectStore, chain: Chain, request: BackfillRequest, former: Manifest, taken: Taken
) -> tuple[Replay, ...]:
    """Replays of the day's run that still count, and those that are due if the day is requested."""
    had = {replay.decision for replay in former.replays}
    requested = request.covers(former.day)
    if not had and not requested:
        return ()
    return tuple(
        replay
        for replay in due_replays(lake, chain, taken.decisions, former.day)
        if replay.decision in had or (requested and request.takes(replay.source, replay.topic))
    )
