"""Verdicts compared with the answers of a broker that a capture has (docs/guides/capture-format.md)."""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.config.settings import Settings
from spark_jobs.kafka.errors import KafkaError
from spark_jobs.kafka.producers.verdict import Verdict
from spark_jobs.kafka.topic_partition import TopicPartition
from spark_jobs.lake.manifest import Manifest, ManifestEntry, ObjectRole, StagedObjects
from spark_jobs.lake.object_store import ObjectStore
from spark_jobs.lake.parquet_file import iter_rows
from spark_jobs.sources.capture import answered_object
from spark_jobs.tables.audit import ANSWER_DIFFERENCES, ANSWER_FACTS

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
