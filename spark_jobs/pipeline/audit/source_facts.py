"""Facts of a run's sources (objects, new ones, vanished partitions) and the volumes of topics."""

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from typing import Any

import pyarrow as pa

from spark_jobs.config.settings import Settings
from spark_jobs.config.sources import Source
from spark_jobs.flow import Step
from spark_jobs.kafka.producers.producer_state import AppendOrigin
from spark_jobs.kafka.topic_partition import TopicPartition, log_number, topic_of
from spark_jobs.lake.chain import Chain
from spark_jobs.lake.layout import step_key
from spark_jobs.lake.manifest import (
    SEGMENT_ROLES,
    BareSource,
    Manifest,
    ManifestEntry,
    SetAside,
    StageProblem,
)
from spark_jobs.lake.object_store import ObjectStore
from spark_jobs.lake.parquet_file import read_table
from spark_jobs.sources.registry import reader_of
from spark_jobs.sources.taken import is_updated_in_place
from spark_jobs.tables.audit import SOURCE_FACTS, TOPIC_VOLUMES

MOST_NAMED = 5
UNREADABLE = (SetAside.UNREADABLE, SetAside.DAMAGED)
"""Reasons that no later run cures by itself; objects that change or are incomplete are under way."""


def source_facts(settings: Settings, manifest: Manifest, before: Manifest | None) -> pa.Table:
    """The table `source_facts`; `before` is the manifest of the newest run of an earlier date."""
    there = _partitions(manifest.entries)
    rows = [_row(source, manifest, before, there) for source in settings.sources]
    return SOURCE_FACTS.cast(pa.Table.from_pylist(rows, schema=SOURCE_FACTS.schema))


def _row(
    source: Source, manifest: Manifest, before: Manifest | None, there: set[TopicPartition]
) -> dict[str, Any]:
    entries = [entry for entry in manifest.entries if entry.source == source.name]
    bare = next((each for each in manifest.bare_sources if each.bare == source.name), None)
    has_nothing = bare is not None and not any(entry.topic for entry in entries)
    new = sum(not (entry.seen or entry.inherited) for entry in entries)
    is_stale = not new and not source.seed  # a seed is the past, which does not change
    vanished = sorted(_vanished(source, before, there))
    unreadable = _unreadable(source, manifest)
    is_capture = reader_of(source).origin is AppendOrigin.CLIENT
    remarks = (
        *_remarks(bare if has_nothing else None, vanished, is_stale=is_stale),
        *_unreadable_remarks(unreadable),
    )
    return {
        "source": source.name,
        "objects": len(entries),
        "new_objects": new,
        "is_empty": int(has_nothing and bare is not None and _is_empty(source, bare)),
        "is_unrecognised": int(has_nothing and bare is not None and bare.objects > 0),
        "is_stale": int(is_stale),
        "vanished_partitions": len(vanished),
        "unreadable_objects": 0 if is_capture else len(unreadable),
        "unreadable_captures": len(unreadable) if is_capture else 0,
        "remark": "; ".join(remarks),
    }


def _is_empty(source: Source, bare: BareSource) -> bool:
    """A source that is divided by date may have a quiet day, once it has brought something."""
    return bare.objects == 0 and not (bare.is_known and source.dates is not None)


def _vanished(source: Source, before: Manifest | None, there: set[TopicPartition]) -> set[TopicPartition]:
    """Partitions that the last copy of a whole log directory held, of topics that are still wanted.

    The log of a topic that was deleted and recreated may go: where a newer log is, it is no loss.
    """
    if before is None or not is_updated_in_place(source):
        return set()
    own = (entry for entry in before.entries if entry.source == source.name)
    newest: dict[str, int] = {}
    for log in {each.topic for each in there}:
        newest[topic_of(log)] = max(newest.get(topic_of(log), 1), log_number(log))
    return {
        each
        for each in _partitions(own) - there
        if source.topics.takes(topic_of(each.topic))
        and log_number(each.topic) >= newest.get(topic_of(each.topic), 1)
    }


def _partitions(entries: Iterable[ManifestEntry]) -> set[TopicPartition]:
    """Those with a segment; a partition that retention has emptied keeps one."""
    return {TopicPartition(entry.topic, entry.partition) for entry in entries if entry.role in SEGMENT_ROLES}


def _unreadable(source: Source, manifest: Manifest) -> list[StageProblem]:
    return [each for each in manifest.problems if each.source == source.name and each.reason in UNREADABLE]


def _remarks(bare: BareSource | None, vanished: list[TopicPartition], *, is_stale: bool) -> Iterator[str]:
    if bare is not None:
        yield bare.detail
    elif is_stale:
        yield "nothing that no earlier run has read; is the copy or the capture still running?"
    if vanished:
        yield (
            f"{_named(vanished)} had segments in the copy of the last run and have none now; copy them, or"
            " leave a deleted topic out by the source's topics.exclude"
        )


def _unreadable_remarks(unreadable: list[StageProblem]) -> Iterator[str]:
    if unreadable:
        yield (
            f"{_named([each.path for each in unreadable])} cannot be read: {unreadable[0].detail}; repair the"
            " object or its permissions and run with --restage"
        )


def _named(found: Sequence[object]) -> str:
    more = f" and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
    return ", ".join(map(str, found[:MOST_NAMED])) + more


# Volumes of topics, of this run and of earlier ones.

READERS = 8
SUMMED = {
    "batches": "verdicts",
    "duplicate": "duplicate",
    "overlap": "overlap",
    "rejected": "rejected",
    "out_of_order": "out_of_order",
    "corrupt": "corrupt",
    "records": "rows",
}
"""Columns of `topic_volumes` by those of `partition_facts` that they are sums of."""


def topic_volumes(partitions: pa.Table) -> pa.Table:
    """The table `topic_volumes` of a run, from its `partition_facts`."""
    sums = partitions.group_by("topic").aggregate([(name, "sum") for name in SUMMED.values()])
    columns = {
        "topic": sums.column("topic"),
        **{name: sums.column(f"{summed}_sum") for name, summed in SUMMED.items()},
    }
    return TOPIC_VOLUMES.cast(pa.table(columns).sort_by("topic"))


def earlier_volumes(lake: ObjectStore, chain: Chain, day: date, *, runs: int) -> tuple[pa.Table, ...]:
    """`topic_volumes` of the last `runs` runs before `day`, oldest first; without those that have none."""
    keys = [step_key(entry.run_id, Step.AUDIT, TOPIC_VOLUMES.file) for entry in chain.before(day)[-runs:]]
    with ThreadPoolExecutor(READERS) as readers:
        found = [
            key for key, stat in zip(keys, readers.map(lake.stat, keys), strict=True) if stat is not None
        ]
        return tuple(readers.map(lambda key: read_table(lake, key), found))
