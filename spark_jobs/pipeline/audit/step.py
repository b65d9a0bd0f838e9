"""`audit`: expectations that must hold before a run is published; a failed critical one ends the run here.

Workers count, Great Expectations evaluates the counts. The results stay in the step's folder either way.
Read on in: `plan` (what earlier steps have written, and the tasks), `job` (what a task receives), `worker`
(what a Spark task counts) with `columns`, `sequences` and `keys`; `transaction_facts`, `source_facts`
and `partitioners` count the rest; `expectations.judge` evaluates.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib import import_module
from itertools import chain
from typing import Any

import pyarrow as pa

from expectations.gate import Facts, JudgedExpectation, Judgement, check, contained, failed
from spark_jobs.config.audit import Severity
from spark_jobs.flow import Step
from spark_jobs.lake.layout import step_key
from spark_jobs.lake.manifest import Manifest, read_run_manifest
from spark_jobs.lake.parquet_file import iter_rows, put_table, read_table
from spark_jobs.lake.run_folder import OutputFile, RunFolder
from spark_jobs.lake.table_listing import entries_of, put_listing, read_listing
from spark_jobs.pipeline.audit.job import AuditTask, PartitionInputs
from spark_jobs.pipeline.audit.keys import Row, elsewhere, hash_keys, judge_topics
from spark_jobs.pipeline.audit.partitioners import Fits, JudgedKeys, KeyHashes, fits_table, read_fits
from spark_jobs.pipeline.audit.plan import (
    key_of,
    partition_inputs,
    plan_tasks,
    plan_transactions,
    read_accounts,
    rows_by_partition,
)
from spark_jobs.pipeline.audit.source_facts import (
    answer_tables,
    compare_answers,
    earlier_volumes,
    plan_answers,
    source_facts,
    topic_volumes,
)
from spark_jobs.pipeline.audit.transaction_facts import count_transactions
from spark_jobs.pipeline.audit.worker import CountedFacts, count_facts
from spark_jobs.pipeline.context import RunContext, StepResult
from spark_jobs.tables.admit import ADMITTED_PARTITIONS
from spark_jobs.tables.audit import (
    ANSWER_DIFFERENCES,
    ANSWER_FACTS,
    EXPECTATION_RESULTS,
    ID_FACTS,
    PARTITION_FACTS,
    SOURCE_FACTS,
    TOPIC_PARTITIONERS,
    TOPIC_VOLUMES,
    TRANSACTION_FACTS,
)
from spark_jobs.tables.contract import published
from spark_jobs.tables.deduplicate import DUPLICATE_FACTS

JUDGE = "expectations.judge"
FEW_TRANSACTIONS = 1 << 15
CRITICAL = "critical"
"""Count of critical failures that hold a part of the run, and let the rest continue."""

Judge = Callable[..., Judgement]


def prepare() -> None:
    """Imports Great Expectations, which takes seconds, while workers count."""
    import_module(JUDGE)


def run(context: RunContext) -> StepResult:
    """Counts facts, evaluates the expectations, writes both; raises `AuditFailed` for a critical failure."""
    with ThreadPoolExecutor(1) as helper:
        prepared = helper.submit(prepare)
        facts, placement = count(context)
        facts, differences = with_answers(context, facts)
        prepared.result()
    judge: Judge = import_module(JUDGE).judge
    judgement = judge(
        facts, context.settings.audit, run_id=context.folder.run_id, run_time=logical_time(context)
    )
    outputs = (
        *put_facts(context, facts, placement),
        *put_answers(context, facts.answers, differences),
        *put_judgement(context, judgement),
    )
    check(judgement.findings)
    warnings, critical = failed(judgement.findings, Severity.WARNING), contained(judgement.findings)
    return StepResult(
        outputs=outputs,
        counts={
            "expectations": sum(each.success is not None for each in judgement.findings),
            "warnings": len(warnings),
            **({CRITICAL: len(critical)} if critical else {}),
        },
        messages=(
            *(f"critical: {each}" for each in critical),
            *placement.events,
            *(f"warning: {each}" for each in warnings),
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """The table `topic_partitioners` as later runs read it, and sentences about what has changed."""

    fits: pa.Table
    events: tuple[str, ...]


def count(context: RunContext) -> tuple[Facts, Placement]:
    """The numbers that the run is judged by, and what has placed keys."""
    folder, settings = context.folder, context.settings
    inputs = partition_inputs(folder, read_accounts(folder, context.chain), settings)
    with ThreadPoolExecutor(1) as threads:
        tasks = plan_transactions(folder, inputs, settings)
        counted = threads.submit(context.run_tasks, count_transactions, tasks, in_driver=are_few(folder))
        partitions, placement = count_partitions(context, inputs)
        rows = counted.result()
    facts = Facts(
        sources=source_facts(settings, context.manifest, manifest_before(context)),
        partitions=partitions,
        transactions=TRANSACTION_FACTS.cast(pa.Table.from_pylist(rows, schema=TRANSACTION_FACTS.schema)),
        volumes=topic_volumes(partitions),
        ids=id_facts(folder, partitions),
        history=earlier_volumes(
            context.lake, context.chain, folder.inputs.day, runs=settings.audit.history_runs
        ),
    )
    return facts, placement


def with_answers(context: RunContext, facts: Facts) -> tuple[Facts, pa.Table]:
    """The facts with `answer_facts`, and `answer_differences`, where captures have a broker's answers."""
    folder = context.folder
    admitted = rows_by_partition(folder.lake, folder.key(Step.ADMIT, ADMITTED_PARTITIONS.file))
    batches = {each: key_of(folder, Step.ADMIT, row.get("batches")) for each, row in admitted.items()}
    tasks = plan_answers(context.manifest, batches, context.settings, folder.lake)
    answers, differences = answer_tables(context.run_tasks(compare_answers, tasks) if tasks else ())
    return replace(facts, answers=answers), differences


def put_answers(context: RunContext, answers: pa.Table, differences: pa.Table) -> tuple[OutputFile, ...]:
    """Both tables, if there are answers at all."""
    if not answers.num_rows:
        return ()
    tables = {ANSWER_FACTS.file: answers, ANSWER_DIFFERENCES.file: differences}
    folder = context.folder.key(Step.AUDIT)
    return tuple(put_table(context.lake, folder, path, table) for path, table in tables.items())


def id_facts(folder: RunFolder, partitions: pa.Table) -> pa.Table | None:
    """The table `id_facts`, duplicates counted again from their files; None without `deduplicate`."""
    if folder.marked(Step.DEDUPLICATE) is None:
        return None
    rows = {(row["topic"], row["partition"]): row["rows"] for row in partitions.to_pylist()}
    duplicates = _duplicates(folder)
    read = read_table(folder.lake, folder.key(Step.DEDUPLICATE, DUPLICATE_FACTS.file)).to_pylist()
    found = [
        {
            "topic": row["topic"],
            "partition": row["partition"],
            "records": row["records"],
            "without_id": row["null_ids"] + row["unusable_ids"],
            "rows": rows.get((row["topic"], row["partition"]), 0),
            "duplicates": duplicates[row["topic"], row["partition"]],
        }
        for row in read
    ]
    return ID_FACTS.cast(pa.Table.from_pylist(found, schema=ID_FACTS.schema))


def _duplicates(folder: RunFolder) -> Counter[tuple[str, int]]:
    """Rows of the table `duplicates` by topic and partition."""
    found: Counter[tuple[str, int]] = Counter()
    for entry in read_listing(folder, Step.DEDUPLICATE):
        if entry.topic is None and entry.file is not None:
            names = ["topic", "partition"]
            for part in iter_rows(folder.lake, folder.key(Step.DEDUPLICATE, entry.file), columns=names):
                sums = pa.table(part).group_by(names).aggregate([([], "count_all")])
                for row in sums.to_pylist():
                    found[row["topic"], row["partition"]] += row["count_all"]
    return found


def manifest_before(context: RunContext) -> Manifest | None:
    """What the newest run of an earlier date has read."""
    earlier = context.chain.before(context.folder.inputs.day)
    return read_run_manifest(context.lake, earlier[-1].run_id) if earlier else None


def are_few(folder: RunFolder) -> bool:
    """Whether transactions are counted in the driver while workers count the rest, which takes longer."""
    done = folder.done(Step.RESOLVE)
    return done is not None and done.counts["transactions"] <= FEW_TRANSACTIONS


def count_partitions(context: RunContext, inputs: Sequence[PartitionInputs]) -> tuple[pa.Table, Placement]:
    """The table `partition_facts`, and what has placed keys."""
    parallelism, known = context.spark.parallelism if inputs else 1, known_fits(context)
    tasks = plan_tasks(context.folder, inputs, context.settings, known, parallelism=parallelism)
    counted = context.run_tasks(count_facts, tasks)
    found = chain.from_iterable(each.facts for each in counted)
    rows: list[Row] = [
        {"topic": each.partition.topic, "partition": each.partition.partition, **facts}
        for each, facts in zip(inputs, found, strict=True)
    ]
    judged = judge_keys(context, tasks, counted, known)
    for row in rows:
        if row["topic"] in judged:
            row["keys_elsewhere"] = elsewhere(*judged[row["topic"]]).get(row["partition"], 0)
    fits = {**known, **{topic: found.fits for topic, (_, found) in judged.items() if found.fits}}
    events = tuple(f"{topic}: {each}" for topic, (_, found) in judged.items() for each in found.events)
    table = PARTITION_FACTS.cast(pa.Table.from_pylist(rows, schema=PARTITION_FACTS.schema))
    return table, Placement(fits=fits_table(fits), events=events)


def judge_keys(
    context: RunContext,
    tasks: Sequence[AuditTask],
    counted: Sequence[CountedFacts],
    known: Mapping[str, Fits],
) -> dict[str, tuple[KeyHashes, JudgedKeys]]:
    """Topics without an established partitioner, or with misplaced keys: all their keys are checked."""
    topics = {task.topic for task, each in zip(tasks, counted, strict=True) if each.keys is not None}
    pairs = [pair for pair in zip(tasks, counted, strict=True) if pair[0].topic in topics]
    rest = iter(context.run_tasks(hash_keys, [task for task, each in pairs if each.keys is None]))
    found = [(task, next(rest) if each.keys is None else each.keys) for task, each in pairs]
    return judge_topics(found, known, context.settings.audit.keys_elsewhere)


def known_fits(context: RunContext) -> Mapping[str, Fits]:
    """The partitioners found by earlier runs; each run inherits those of topics without new data."""
    runs = context.chain.before(context.folder.inputs.day)[-context.settings.audit.history_runs :]
    for entry in reversed(runs):
        key = step_key(entry.run_id, Step.AUDIT, TOPIC_PARTITIONERS.file)
        if context.lake.stat(key) is not None:
            return read_fits(read_table(context.lake, key))
    return {}


def logical_time(context: RunContext) -> str:
    """The run's time as a text; it depends on no clock."""
    return datetime.fromtimestamp(context.now_ms / 1000, UTC).isoformat()


def put_facts(context: RunContext, facts: Facts, placement: Placement) -> tuple[OutputFile, ...]:
    """What was counted; later runs read the volumes and the partitioners."""
    tables = {
        SOURCE_FACTS.file: facts.sources,
        PARTITION_FACTS.file: facts.partitions,
        TRANSACTION_FACTS.file: facts.transactions,
        TOPIC_VOLUMES.file: facts.volumes,
        TOPIC_PARTITIONERS.file: placement.fits,
        **({ID_FACTS.file: facts.ids} if facts.ids is not None else {}),
    }
    folder = context.folder.key(Step.AUDIT)
    return tuple(put_table(context.lake, folder, path, table) for path, table in tables.items())


def put_judgement(context: RunContext, judgement: Judgement) -> tuple[OutputFile, ...]:
    """The run's rows of `expectation_results`, and its Data Docs."""
    table = results_table(context, judgement.findings)
    results = put_table(context.lake, context.folder.key(Step.AUDIT), EXPECTATION_RESULTS.file, table)
    name, namespace = EXPECTATION_RESULTS.name, context.settings.catalog.namespace
    listing = put_listing(
        context.folder, Step.AUDIT, entries_of(namespace, name, [(results, table.num_rows)])
    )
    pages = (
        context.folder.put(Step.AUDIT, f"docs/{path}", page.encode())
        for path, page in judgement.pages.items()
    )
    return (results, listing, *pages)


def results_table(context: RunContext, findings: Sequence[JudgedExpectation]) -> pa.Table:
    """The findings in the form in which readers get them."""
    contract, inputs = published(EXPECTATION_RESULTS), context.folder.inputs
    rows = [_row(each) | {"run_id": inputs.run_id, "run_date": inputs.day} for each in findings]
    return contract.cast(pa.Table.from_pylist(rows, schema=contract.schema))


def _row(finding: JudgedExpectation) -> dict[str, Any]:
    return {
        "suite": finding.suite,
        "expectation": finding.expectation.value,
        "severity": finding.severity.value,
        "sentence": finding.sentence,
        "success": finding.success,
        "observed": finding.observed,
        "expected": finding.expected,
        "examples": list(finding.examples),
    }
