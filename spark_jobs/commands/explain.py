"""`onceover explain`: why a batch was accepted or refused, or who gets it of a stored log."""

import json
from collections import deque
from collections.abc import Iterator
from datetime import datetime
from itertools import chain as chained
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from spark_jobs.commands.encryption_keys import EncryptionKeys, key_references
from spark_jobs.commands.failure import reported_failures
from spark_jobs.commands.printed_rows import show_rows
from spark_jobs.kafka.topic_partition import TopicPartition
from spark_jobs.lake.object_store import MOST_SHOWN, legible, printable

if TYPE_CHECKING:
    from spark_jobs.explain import ExplainedBatch, ExplainedGap
    from spark_jobs.reading.explain_log import LogAnswer
    from spark_jobs.reading.stored_log import PartitionFiles

MOST = 100
TITLES = ("run date", "batch", "verdict", "offset", "why", "where")
LOG_TITLES = ("offsets", "partition", "batch", "visible to", "why", "where")


def explain(
    topic: Annotated[
        str,
        typer.Argument(
            metavar="TOPIC|PATH",
            help="With --config a topic; else a segment, a partition's directory, a log directory or tiered "
            "storage, also s3://bucket/prefix.",
            show_default=False,
        ),
    ],
    partition: Annotated[
        int | None, typer.Argument(min=0, help="The partition of the topic.", show_default=False)
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option("--config", help="The configuration, a YAML file: explains verdicts of its lake."),
    ] = None,
    *,
    producer_id: Annotated[
        int | None, typer.Option("--producer-id", help="Only batches of this producer.")
    ] = None,
    offset: Annotated[
        int | None, typer.Option("--offset", help="Only the batch or gap at this offset.")
    ] = None,
    run_id: Annotated[str | None, typer.Option("--run", help="Only the verdicts of this run.")] = None,
    date: Annotated[
        datetime | None,
        typer.Option("--date", formats=["%Y-%m-%d"], help="Only the verdicts of the run of this date."),
    ] = None,
    most: Annotated[
        int, typer.Option("--most", min=1, help="How many to show, the newest; --json shows all.")
    ] = MOST,
    encryption_key: EncryptionKeys = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per line.")] = False,
) -> None:
    """Show why a run accepted or refused batches, or which consumers get the batches of a stored log.

    With --config, TOPIC and PARTITION: the verdicts of all final runs, or of one. With a path and without
    --config: which consumers get each batch, and why.

    Example: onceover explain /var/lib/kafka/data/orders-0 --offset 1042
    """
    if config is None:
        _check_path_alone(partition, run_id, date)
        _explain_log(topic, Asked(offset, producer_id, most, as_json, key_references(encryption_key)))
        return
    if partition is None:
        raise typer.BadParameter("expected a partition after the topic", param_hint="PARTITION")
    from spark_jobs.config.load import load_settings
    from spark_jobs.explain import Question, runs_of
    from spark_jobs.explain import explain as explain_run
    from spark_jobs.lake.chain import read_chain
    from spark_jobs.lake.stores import open_lake

    question = Question(
        partition=TopicPartition(topic, partition),
        producer_id=producer_id,
        offset=offset,
        run_id=run_id,
        day=date.date() if date else None,
    )
    with reported_failures():
        lake = open_lake(load_settings(config))
        runs = runs_of(question, read_chain(lake))
        found = chained.from_iterable(explain_run(lake, question, run) for run in runs)
        if as_json:
            for answer in found:
                typer.echo(_line(answer))
            return
        last = deque(enumerate(found, start=1), maxlen=most)
    if not last:
        typer.echo(f"onceover: {printable(str(question.partition))}: no final run has such a batch", err=True)
        raise typer.Exit(1)
    show_rows(TITLES, [_row(answer) for _, answer in last])
    if last[0][0] > 1:
        typer.echo(f"the newest {len(last)} of {last[-1][0]}; --most or --json shows more")
    if len(last) == 1:
        typer.echo(legible(last[0][1].sentence))


class Asked(NamedTuple):
    """What of a stored log is explained, and how it is shown."""

    offset: int | None
    producer_id: int | None
    most: int
    as_json: bool
    encryption_keys: dict[str, str]


def _check_path_alone(partition: int | None, run_id: str | None, date: datetime | None) -> None:
    if partition is not None or run_id is not None or date is not None:
        raise typer.BadParameter(
            "a topic's partition, --run and --date are of a lake: expected --config, or a path alone",
            param_hint="--config",
        )


def _explain_log(path: str, asked: Asked) -> None:
    """The answers on a stored log; those on its first batches where there are many."""
    from spark_jobs.reading.explain_log import as_json
    from spark_jobs.reading.stored_log import choose, find_partitions

    with reported_failures():
        chosen = choose(find_partitions(path, asked.encryption_keys), None, None)
        found = chained.from_iterable(_log_answers(files, asked) for files in chosen)
        if asked.as_json:
            for answer in found:
                typer.echo(json.dumps(as_json(answer)))
            return
        shown = list(islice(found, asked.most + 1))
    if not shown:
        typer.echo(f"onceover: {printable(path)}: no batch of this producer", err=True)
        raise typer.Exit(1)
    show_rows(LOG_TITLES, [_log_row(answer) for answer in shown[: asked.most]])
    if len(shown) > asked.most:
        typer.echo(f"the first {asked.most}; --most, --offset, --producer-id or --json shows others")
    if len(shown) == 1:
        typer.echo(legible(shown[0].sentence))


def _log_answers(files: "PartitionFiles", asked: Asked) -> Iterator["LogAnswer"]:
    """The answers on a partition; bytes of it that are no batch are named beside them."""
    from spark_jobs.reading.explain_log import explain_partition
    from spark_jobs.reading.partition_scan import is_plain, scan_partition
    from spark_jobs.reading.remarks import segment_remarks

    scanned = scan_partition(files, plainly=is_plain([files], records=False))
    for segment in scanned.segments:
        for remark in segment_remarks(segment):
            typer.echo(f"{remark.level}: {printable(segment.file.url)}: {remark.text}", err=True)
    yield from explain_partition(scanned, offset=asked.offset, producer_id=asked.producer_id)


def _log_row(answer: "LogAnswer") -> tuple[str, ...]:
    partition = "" if answer.topic is None else f"{answer.topic}-{answer.partition}"
    return answer.offsets, partition, answer.batch, answer.visible_to, answer.reason, answer.place


def _line(answer: "ExplainedBatch | ExplainedGap") -> str:
    identity = {"run_id": answer.run_id, "place": answer.place, "sentence": answer.sentence}
    return json.dumps({**identity, **answer.row})


def _row(answer: "ExplainedBatch | ExplainedGap") -> tuple[str, ...]:
    offset = "" if answer.row["offset"] is None else str(answer.row["offset"])
    why, where = answer.row["reason"] or "", printable(answer.place, shown=MOST_SHOWN)
    return answer.run_id[:10], answer.what, answer.row["verdict"], offset, why, where
