"""The manifest of a day of a backfill: what is kept and what was fetched, in arrival order."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from datetime import date

from spark_jobs.config.settings import Settings
from spark_jobs.protocol.topic_partition import TopicPartition
from spark_jobs.sources.taken import Fetched, Taken, as_manifest, entry_of, is_updated_in_place, new_content
from spark_jobs.storage.manifest import Manifest, ManifestEntry, StageProblem


def assemble(
    settings: Settings,
    day: date,
    taken: Taken,
    *,
    kept: Iterable[ManifestEntry],
    fetched: Iterable[Fetched],
    problems: Iterable[StageProblem],
) -> Manifest:
    """Compares kept entries with what earlier runs have taken by now."""
    seen = (_seen(settings, entry, taken) for entry in kept)
    new = (entry_of(each, taken) for each in new_content(fetched, taken))
    return as_manifest(day, (*seen, *new), problems)


def _seen(settings: Settings, entry: ManifestEntry, taken: Taken) -> ManifestEntry:
    place = (entry.source, entry.path, entry.content)
    is_whole = is_updated_in_place(settings.source(entry.source))
    return replace(entry, seen=taken.has(*place), rewritten=not is_whole and taken.has_other(*place))


def with_kept_orders(manifest: Manifest, standing: Manifest) -> Manifest:
    """Partitions whose objects are as they were keep their numbers, and with them their bytes downstream.

    Where that takes other numbers than arrival gives, the others are numbered behind all of them; within a
    partition orders ascend by arrival in any case.
    """
    before, now = _by_partition(standing.entries), _by_partition(manifest.entries)
    same = {partition: known for partition, known in before.items() if _same(known, now.get(partition, []))}
    if all(_orders(known) == _orders(now[partition]) for partition, known in same.items()):
        return manifest
    unused = max((entry.order for entry in standing.entries), default=-1) + 1
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
    return replace(
        entry, order=0, version="", referenced=False, seen=False, rewritten=False, topic_id="", copied_at=0
    )


def _by_partition(entries: Iterable[ManifestEntry]) -> dict[TopicPartition, list[ManifestEntry]]:
    found: dict[TopicPartition, list[ManifestEntry]] = defaultdict(list)
    for entry in entries:
        found[TopicPartition(entry.topic, entry.partition)].append(entry)
    return found
