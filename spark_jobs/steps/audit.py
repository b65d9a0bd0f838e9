"""`audit`: what must hold before a night is published; a failed critical expectation ends the run here.

Workers count, Great Expectations judges the counts. What was found stays in the step's folder either way.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from importlib import import_module
from itertools import chain, groupby
from typing import Any

import pyarrow as pa

from expectations.facts import Facts
from expectations.finding import Finding, Judgement
from expectations.gate import check, failed
from spark_jobs.auditing.inputs import AuditTask, PartitionInputs
from spark_jobs.auditing.key_places import Row, doubtful_topics, hash_keys, recount
from spark_jobs.auditing.partitions import partition_inputs, read_accounts
from spark_jobs.auditing.plan import plan_tasks, plan_transactions
from spark_jobs.auditing.transaction_facts import count_transactions
from spark_jobs.auditing.volumes import VOLUMES, earlier_volumes, topic_volumes
from spark_jobs.auditing.worker import Counted, count_facts
from spark_jobs.config.audit import Severity
from spark_jobs.flow import Step
from spark_jobs.steps.context import RunContext, StepResult
from spark_jobs.storage.parquet_file import put_table
from spark_jobs.storage.run_folder import OutputFile, RunFolder
from spark_jobs.storage.table_listing import entries_of, put_listing
from spark_jobs.tables.expectation_results import EXPECTATION_RESULTS
from spark_jobs.tables.partition_facts import PARTITION_FACTS
from spark_jobs.tables.published import published
from spark_jobs.tables.transaction_facts import TRANSACTION_FACTS

JUDGE = "expectations.judge"
RESULTS = "expectation_results.parquet"
FEW_TRANSACTIONS = 1 << 15

Judge = Callable[..., Judgement]


def prepare() -> None:
    """Load the library that judges: it takes seconds, in which workers can do something else."""
    import_module(JUDGE)


def run(context: RunContext) -> StepResult:
    """Count, judge, write both down, and let nothing pass that fails."""
    with ThreadPoolExecutor(1) as helper:
        prepared = helper.submit(prepare)
        facts = count(context)
        prepared.result()
    judge: Judge = import_module(JUDGE).judge
    judgement = judge(
        facts, context.settings.audit, run_id=context.folder.run_id, run_time=logical_time(context)
    )
    outputs = (*put_facts(context, facts), *put_judgement(context, judgement))
    check(judgement.findings)
    warnings = failed(judgement.findings, Severity.WARNING)
    return StepResult(
        outputs=outputs,
        counts={"expectations": len(judgement.findings), "warnings": len(warnings)},
        messages=tuple(f"warning: {each}" for each in warnings),
    )


def count(context: RunContext) -> Facts:
    """The numbers that the night is judged by."""
    folder, settings = context.folder, context.settings
    inputs = partition_inputs(folder, read_accounts(folder, context.chain), settings)
    with ThreadPoolExecutor(1) as beside:
        tasks = plan_transactions(folder, inputs, settings)
        counted = beside.submit(context.run_tasks, count_transactions, tasks, here=are_few(folder))
        partitions = count_partitions(context, inputs)
        rows = counted.result()
    return Facts(
        partitions=partitions,
        transactions=TRANSACTION_FACTS.cast(pa.Table.from_pylist(rows, schema=TRANSACTION_FACTS.schema)),
        volumes=topic_volumes(partitions),
        history=earlier_volumes(
            context.lake, context.chain, folder.inputs.day, runs=settings.audit.history_runs
        ),
    )


def are_few(folder: RunFolder) -> bool:
    """Whether transactions are counted here while workers count the rest, which takes longer anyway."""
    done = folder.done(Step.RESOLVE)
    return done is not None and done.counts["transactions"] <= FEW_TRANSACTIONS


def count_partitions(context: RunContext, inputs: Sequence[PartitionInputs]) -> pa.Table:
    """The table `partition_facts`."""
    parallelism = context.spark.parallelism if inputs else 1
    tasks = plan_tasks(context.folder, inputs, context.settings, parallelism=parallelism)
    counted = context.run_tasks(count_facts, tasks)
    found = chain.from_iterable(each.facts for each in counted)
    rows: list[Row] = [
        {"topic": each.partition.topic, "partition": each.partition.partition, **facts}
        for each, facts in zip(inputs, found, strict=True)
    ]
    recounted = recount_keys(context, tasks, counted, rows)
    for row in rows:
        row["keys_elsewhere"] = recounted.get((row["topic"], row["partition"]), row["keys_elsewhere"])
    return PARTITION_FACTS.cast(pa.Table.from_pylist(rows, schema=PARTITION_FACTS.schema))


def recount_keys(
    context: RunContext, tasks: Sequence[AuditTask], counted: Sequence[Counted], rows: Sequence[Row]
) -> dict[tuple[str, int], int]:
    """Keys elsewhere of topics that have more partitions than were seen, by topic and partition."""
    allowed = context.settings.audit.keys_elsewhere
    doubtful = doubtful_topics(rows, allowed)
    pairs = [pair for pair in zip(tasks, counted, strict=True) if pair[0].topic in doubtful]
    rest = iter(context.run_tasks(hash_keys, [task for task, each in pairs if each.doubtful is None]))
    found = [(task, next(rest) if each.doubtful is None else each.doubtful) for task, each in pairs]
    counts: dict[tuple[str, int], int] = {}
    for topic, same in groupby(found, key=lambda each: each[0].topic):
        together = list(same)
        hashes = [each for _, each in together]
        counts |= recount(topic, hashes, together[0][0].partition_count, allowed)
    return counts


def logical_time(context: RunContext) -> str:
    """The run's time as a text; it depends on no clock."""
    return datetime.fromtimestamp(context.now_ms / 1000, UTC).isoformat()


def put_facts(context: RunContext, facts: Facts) -> tuple[OutputFile, ...]:
    """What was counted; later nights read the volumes."""
    tables = {
        "partition_facts.parquet": facts.partitions,
        "transaction_facts.parquet": facts.transactions,
        VOLUMES: facts.volumes,
    }
    folder = context.folder.key(Step.AUDIT)
    return tuple(put_table(context.lake, folder, path, table) for path, table in tables.items())


def put_judgement(context: RunContext, judgement: Judgement) -> tuple[OutputFile, ...]:
    """The run's rows of `expectation_results`, and its Data Docs."""
    table = results_table(context, judgement.findings)
    results = put_table(context.lake, context.folder.key(Step.AUDIT), RESULTS, table)
    name, namespace = EXPECTATION_RESULTS.name, context.settings.catalog.namespace
    listing = put_listing(
        context.folder, Step.AUDIT, entries_of(namespace, name, [(results, table.num_rows)])
    )
    pages = (
        context.folder.put(Step.AUDIT, f"docs/{path}", page.encode())
        for path, page in judgement.pages.items()
    )
    return (results, listing, *pages)


def results_table(context: RunContext, findings: Sequence[Finding]) -> pa.Table:
    """The findings in the form in which readers get them."""
    contract, inputs = published(EXPECTATION_RESULTS), context.folder.inputs
    rows = [_row(each) | {"run_id": inputs.run_id, "run_date": inputs.day} for each in findings]
    return contract.cast(pa.Table.from_pylist(rows, schema=contract.schema))


def _row(finding: Finding) -> dict[str, Any]:
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
