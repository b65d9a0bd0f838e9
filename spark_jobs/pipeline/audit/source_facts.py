"""Facts of a run's sources (objects, new ones, vanished partitions) and the volumes of topics."""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import date
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.config.settings import Settings
from spark_jobs.config.sources import Source
from spark_jobs.flow import Step
from spark_jobs.kafka.errors import KafkaError
from spark_jobs.kafka.producers.producer_state import AppendOrigin
from spark_jobs.kafka.producers.verdict import Verdict
from spark_jobs.kafka.topic_partition import TopicPartition, log_number, topic_of
from spark_jobs.lake.chain import Chain
from spark_jobs.lake.layout import step_key
from spark_jobs.lake.manifest import (
    SEGMENT_ROLES,
    BareSource,
    Manifest,
    ManifestEntry,
    ObjectRole,
    SetAside,
    StagedObjects,
    StageProblem,
)
from spark_jobs.lake.object_store import ObjectStore
from spark_jobs.lake.parquet_file import iter_rows, read_table
from spark_jobs.sources.capture import answered_object
from spark_jobs.sources.registry import reader_of
from spark_jobs.sources.taken import is_updated_in_place
from spark_jobs.tables.audit import ANSWER_DIFFERENCES, ANSWER_FACTS, SOURCE_FACTS, TOPIC_VOLUMES

MOST_NAMED = 5
UNREADABLE = (SetAside.UNREADABLE, SetAside.DAMAGED)
"""Reasons that remain in later runs; objects that change or are incomplete are under way."""


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


# Verdicts compared with the answers of a broker that a capture has (docs/guides/capture-format.md).

LISTED = 10_000
"""Differences of a partition that are listed; the others are only counted."""
COMPARED = ("position", "producer_id", "producer_epoch", "base_sequence", "verdict", "kafka_error")
NOT_JUDGED = (Verdict.PARKED.value, Verdict.OVERLAP.value)
"""Verdicts that are no answer yet, or about a copy of the batch."""
TAKEN = KafkaError.NONE.name
UNKNOWN = {None, KafkaError.REQUEST_TIMED_OUT, KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND}
"""Answers that leave open whether the broker has the batch."""
Row = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswersTask:
    """A partition: its `batches` file, and the answers by the order of the objects that they are about."""

    partition: TopicPartition
    batches: str
    answers: Mapping[int, ManifestEntry]
    settings: Settings
    lake: ObjectStore


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedAnswers:
    """A row of `answer_facts`, and rows of `answer_differences`."""

    facts: Row
    differences: tuple[Row, ...]


def plan_answers(
    manifest: Manifest, batches: Mapping[TopicPartition, str], settings: Settings, lake: ObjectStore
) -> list[AnswersTask]:
    """A task per partition of which the run has a capture with answers; `batches` are keys of files."""
    return [
        AnswersTask(partition=each, batches=batches[each], answers=answers, settings=settings, lake=lake)
        for each, answers in sorted(_by_partition(manifest).items())
        if batches.get(each)
    ]


def _by_partition(manifest: Manifest) -> dict[TopicPartition, dict[int, ManifestEntry]]:
    """Answers of every partition, by the order of the capture object beside them."""
    captures = {
        (entry.source, entry.path.rpartition(".")[0]): entry
        for entry in manifest.entries
        if entry.role is ObjectRole.CAPTURE
    }
    found: dict[TopicPartition, dict[int, ManifestEntry]] = defaultdict(dict)
    for entry in manifest.entries:
        about = captures.get((entry.source, answered_object(entry.path)))
        if entry.role is ObjectRole.ANSWERS and about is not None:
            found[TopicPartition(about.topic, about.partition)][about.order] = entry
    return found


def compare_answers(task: AnswersTask) -> ComparedAnswers:
    """What a Spark task does: all batches of a partition that the broker has answered."""
    staged = StagedObjects(task.settings)
    answers = unanswered = differing = 0
    listed: list[Row] = []
    rows = _rows_by_object(task)
    for order, entry in sorted(task.answers.items()):
        lines = {line["position"]: line for line in _lines(staged.read(entry))}
        for row in rows.get(order, ()):
            line = lines.get(row["position"])
            if line is None or row["verdict"] in NOT_JUDGED:
                continue
            if line["error_code"] in UNKNOWN:
                unanswered += 1
                continue
            answers += 1
            if _answer(line) != row["kafka_error"]:
                differing += 1
                if len(listed) < LISTED:
                    listed.append(_difference(task.partition, entry, row, line))
    facts = {
        "topic": task.partition.topic,
        "partition": task.partition.partition,
        "answers": answers,
        "unanswered": unanswered,
        "differing": differing,
        "remark": _remark(listed[0]) if listed else "",
    }
    return ComparedAnswers(facts=facts, differences=tuple(listed))


def _rows_by_object(task: AnswersTask) -> dict[int, list[Row]]:
    """The rows of `batches` that are in answered objects."""
    wanted = pa.array(sorted(task.answers), pa.int32())
    found: dict[int, list[Row]] = defaultdict(list)
    for part in iter_rows(task.lake, task.batches, columns=["object_order", *COMPARED]):
        chosen = part.filter(pc.is_in(part.column("object_order"), value_set=wanted))
        for row in chosen.to_pylist():
            found[row["object_order"]].append(row)
    return found


def _lines(data: bytes) -> Iterator[Row]:
    """The lines about batches of the capture object; those that cannot be read say nothing."""
    for text in data.splitlines():
        try:
            line = json.loads(text)
            if line["object"] == "batches" and isinstance(line["error_code"], int | None):
                yield {"position": int(line["position"]), **line}
        except (ValueError, KeyError, TypeError):
            continue


def _answer(line: Row) -> str:
    """The name of the broker's error; a duplicate is a batch that the broker has."""
    code = line["error_code"]
    if code == KafkaError.DUPLICATE_SEQUENCE_NUMBER:
        return TAKEN
    return KafkaError(code).name if code in set(KafkaError) else f"error {code}"


def _difference(partition: TopicPartition, entry: ManifestEntry, row: Row, line: Row) -> Row:
    offset = line.get("base_offset")
    return {
        "topic": partition.topic,
        "partition": partition.partition,
        "source": entry.source,
        "path": entry.path,
        **{name: row[name] for name in COMPARED},
        "broker_error": _answer(line),
        "broker_offset": -1 if offset is None else offset,
    }


def _remark(difference: Row) -> str:
    return (
        f"{difference['path']}, position {difference['position']}: verdict {difference['verdict']} "
        f"({difference['kafka_error']}), the broker answered {difference['broker_error']}"
    )


def answer_tables(compared: Iterable[ComparedAnswers]) -> tuple[pa.Table, pa.Table]:
    """The tables `answer_facts` and `answer_differences`."""
    found = list(compared)
    facts = pa.Table.from_pylist([each.facts for each in found], schema=ANSWER_FACTS.schema)
    rows = [row for each in found for row in each.differences]
    differences = pa.Table.from_pylist(rows, schema=ANSWER_DIFFERENCES.schema)
    return ANSWER_FACTS.cast(facts), ANSWER_DIFFERENCES.cast(differences)
