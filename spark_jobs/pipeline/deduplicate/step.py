"""`deduplicate`: of records with the same business id the first stays; the others go to `duplicates`.

It runs after `materialise`, so that payloads are decoded once: the ids are read from the files of records,
and only files with duplicates are written again. It hands the index of all ids to the next run; an index
that does not exist yet is built from the published files of earlier runs.

Read on in: `ids` (what an id is), `job` (what tasks receive and return), `worker` (what Spark tasks do) and
`earlier_runs`; `lake.id_index` has the index.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pyarrow as pa

from spark_jobs.config.dedup import IdRule
from spark_jobs.execution.shuffle import TaskRows
from spark_jobs.flow import Step
from spark_jobs.kernels.ids import bucket_range
from spark_jobs.lake.errors import Damaged
from spark_jobs.lake.id_index import (
    IdFile,
    IdIndex,
    SortedRun,
    advanced,
    digest_of_indexes,
    indexes_before,
    piece_count,
    put_indexes,
)
from spark_jobs.lake.layout import state_key
from spark_jobs.lake.parquet_file import put_table
from spark_jobs.lake.run_folder import OutputFile
from spark_jobs.lake.table_listing import TableEntry, entries_of, put_listing, read_listing
from spark_jobs.pipeline.context import RunContext, StepResult
from spark_jobs.pipeline.deduplicate.earlier_runs import (
    CHUNK_ROWS,
    Builds,
    RunFiles,
    chunks_of,
    files_of,
    history_of,
)
from spark_jobs.pipeline.deduplicate.job import (
    FOUND,
    NO_FILE,
    PACKED,
    BucketContext,
    BucketResult,
    FileTask,
    FoundPart,
    IdCounts,
    NewIds,
    NewPieces,
    PieceTask,
    RewriteTask,
    Rewritten,
    hash_key,
    part_of,
)
from spark_jobs.pipeline.deduplicate.worker import (
    first_path,
    found_by_part,
    found_path,
    judge_bucket,
    outputs_of,
    put_part,
    read_found,
    read_ids,
    rewrite_file,
    write_firsts,
    write_hashes,
    write_nothing,
)
from spark_jobs.tables.deduplicate import (
    DUPLICATE_COUNTS,
    DUPLICATE_FACTS,
    DUPLICATES,
    SECONDS_REPEATED,
    DuplicateKind,
)
from spark_jobs.tables.table_names import folder_name

FEW_ROWS, FEW_BYTES = 1 << 17, 64 * 2**20
"""So many records are compared in the driver if so many bytes are read for them: a Spark job costs more."""
FEW_FOUND_BYTES = 16 * 2**20
"""Lists of duplicates of so many bytes are divided in the driver and are part of the tasks that need them."""
INDEX_SHARE = 64
"""A bucket has so many times as many ids of the index as it may have new ones: they are read in parts."""
MEGABYTE = 10**6
SCRATCH = "parts"
"""Folder below the step's for files between its tasks; it is removed at the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Extended:
    """An index with the ids of some runs, and what was found about these runs on the way."""

    index: IdIndex
    counts: tuple[IdCounts, ...] = ()
    found: tuple[str, ...] = ()
    found_bytes: int = 0
    duplicates: int = 0


@dataclass(slots=True, kw_only=True)
class RuleResult:
    """What one rule leaves: its index, counts of ids, rewritten files."""

    rule: IdRule
    index: IdIndex
    counts: tuple[IdCounts, ...] = ()
    rewritten: list[Rewritten] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)
    builds: Builds | None = None


def run(context: RunContext) -> StepResult:
    """Removes duplicates from the files of the run, and extends the index of every rule."""
    logs = sorted(
        {entry.topic for entry in read_listing(context.folder, Step.MATERIALISE) if entry.topic is not None}
    )
    before = indexes_before(context.lake, context.chain, context.folder.inputs.state_in)
    results = [apply_rule(context, rule, before) for rule, _ in context.settings.id_rules(logs)]
    indexes = [each.index for each in results]
    outputs = (
        put_indexes(context.folder, indexes),
        *put_facts(context, results),
        put_listing(context.folder, Step.DEDUPLICATE, listing(context, results)),
        *(output for each in results for file in each.rewritten for output in outputs_of(file)),
    )
    remove_scratch(context, context.folder.key(Step.DEDUPLICATE, SCRATCH))
    return StepResult(
        outputs=outputs,
        counts=counts_of(results),
        state=digest_of_indexes(indexes),
        obsolete=tuple(key for each in results if each.builds is not None for key in each.builds.stored()),
        messages=tuple(message for each in results for message in (*each.messages, *messages_of(each))),
    )


def remove_scratch(context: RunContext, folder: str) -> None:
    """Deletes files that tasks have read."""
    for found in tuple(context.lake.list(folder)):
        context.lake.delete(found.key)


# One rule.


def apply_rule(context: RunContext, rule: IdRule, before: Mapping[str, IdIndex]) -> RuleResult:
    """Compares the run's records with the index and with each other."""
    index, messages, builds = before.get(rule.digest), list[str](), None
    if index is None:
        index, messages, builds = build(context, rule)
    current = files_of(context.folder, rule, context)
    context.on_progress(cost_of(rule, index, current))
    extended = extend(context, rule, index, [current])
    rewritten = rewrite(context, rule, current, extended)
    check_removed(rule, found=extended.duplicates, removed=sum(file.count for file in rewritten))
    return RuleResult(
        rule=rule,
        index=extended.index,
        counts=extended.counts,
        rewritten=rewritten,
        messages=messages,
        builds=builds,
    )


def check_removed(rule: IdRule, *, found: int, removed: int) -> None:
    """Refuses a run that would publish a duplicate; the audit's sums are the same with and without it."""
    if removed != found:
        raise Damaged(
            f"business ids of {rule.name}: {found:,} records are duplicates, {removed:,} were removed from "
            "files of the run; nothing is published, run the date again"
        )


def cost_of(rule: IdRule, index: IdIndex, current: RunFiles) -> str:
    """What the step is about to read."""
    return (
        f"{rule.name}: comparing {current.rows:,} records with {index.ids:,} ids, "
        f"{index.bytes / MEGABYTE:,.1f} MB of hashes to read"
    )


def build(context: RunContext, rule: IdRule) -> tuple[IdIndex, list[str], Builds]:
    """The index of all earlier runs; it is stored now and then, so that an interrupted build continues."""
    runs = history_of(context, rule)
    builds = Builds(context.lake, rule, runs)
    done, index, duplicates = builds.newest()
    total = sum(run.bytes for run in runs)
    for chunk in chunks_of(runs[done:], most=CHUNK_ROWS):
        read = sum(run.bytes for run in runs[:done])
        context.on_progress(
            f"{rule.name}: no index yet; reading ids of {len(runs)} earlier runs, {done} done, "
            f"{read / MEGABYTE:,.1f} of {total / MEGABYTE:,.1f} MB"
        )
        extended = extend(context, rule, index, chunk, published=True)
        index, done = extended.index, done + len(chunk)
        duplicates += extended.duplicates
        builds.put(done, index, duplicates)
        remove_scratch(context, _scratch(context, rule, chunk[0]))
    if not any(run.rows for run in runs):
        return index, [], builds
    message = f"{rule.name}: the index was built from {len(runs)} earlier runs, {index.ids:,} ids"
    repeats = f"; {duplicates:,} of their records repeat an id and stay published" if duplicates else ""
    return index, [message + repeats], builds


def extend(
    context: RunContext,
    rule: IdRule,
    index: IdIndex,
    runs: Sequence[RunFiles],
    *,
    published: bool = False,
) -> Extended:
    """The index after these runs; duplicates are listed in files, unless the runs are `published` already."""
    rows = sum(run.rows for run in runs)
    buckets = bucket_count(rows, index.ids, context.settings.limits.file_bytes)
    folder = _scratch(context, rule, runs[0])
    files = [(number, file) for run in runs for number, file in enumerate(run.files)]
    tasks = [
        FileTask(
            file=file,
            number=NO_FILE if published else number,
            source=rule.id,
            hash_key=hash_key(rule),
            buckets=buckets,
            lake=context.lake,
        )
        for number, file in files
    ]
    is_exact = len(runs) == 1 and buckets == piece_count(rows, context.settings.limits.file_bytes)
    bucket = BucketContext(
        rule=rule,
        index=index,
        buckets=buckets,
        folder=folder,
        lake=context.lake,
        writes_firsts=is_exact,
        writes_hashes=is_exact and is_not_merged(rule, index, runs[0]),
    )
    shuffled = context.shuffle(
        [TaskRows(function=read_ids, tasks=tasks, schema=PACKED)],
        key="bucket",
        function=partial(judge_bucket, bucket),
        name=f"compare ids of {rule.name}",
        in_driver=is_little(rows, sum(run.bytes for run in runs) + index.bytes),
    )
    results: list[BucketResult] = shuffled.summaries
    return Extended(
        index=with_new_ids(context, bucket, runs, results),
        counts=tuple(shuffled.notes),
        found=() if published else tuple(_found_keys(folder, results)),
        found_bytes=sum(each.found_bytes for each in results),
        duplicates=sum(each.duplicates for each in results),
    )


def is_little(rows: int, size: int) -> bool:
    """Whether it is done in the driver; large values, or a few records and a large index, are for Spark."""
    return rows <= FEW_ROWS and size <= FEW_BYTES


def _scratch(context: RunContext, rule: IdRule, run: RunFiles) -> str:
    return context.folder.key(Step.DEDUPLICATE, SCRATCH, rule.digest[:16], str(run.day))


def bucket_count(rows: int, ids: int, file_bytes: int) -> int:
    """Into how many buckets rows are divided: their number changes no result."""
    return max(piece_count(rows, file_bytes), piece_count(ids // INDEX_SHARE, file_bytes))


def _found_keys(folder: str, results: Iterable[BucketResult]) -> Iterator[str]:
    yield from (f"{folder}/{found_path(each.bucket)}" for each in results if each.found_bytes)


def is_not_merged(rule: IdRule, index: IdIndex, run: RunFiles) -> bool:
    """Whether new ids of the run are a sorted run of their own, which is not merged with earlier ones."""
    return advanced(index.hashes, [(run.day, True, rule.first_day(run.day))])[-1].level == 0


# The index after the run.


def with_new_ids(
    context: RunContext, bucket: BucketContext, runs: Sequence[RunFiles], results: Sequence[BucketResult]
) -> IdIndex:
    """The index with the new first records that buckets have written."""
    rule, index = bucket.rule, bucket.index
    new = {run.day: _new_ids(bucket, run.day, results) for run in runs}
    counts = {run.day: sum(each.firsts.get(run.day, 0) for each in results) for run in runs}
    days = [(run.day, counts[run.day] > 0, rule.first_day(run.day)) for run in runs]
    new_hashes, new_firsts = written_pieces(context, bucket, results, sum(counts.values()))
    hashes = [
        replace(each, pieces=each.pieces or new_hashes or _merged(context, bucket, each, new, counts))
        for each in advanced(index.hashes, days)
    ]
    firsts = [
        SortedRun(
            first=day,
            last=day,
            pieces=new_firsts or _first_records(context, bucket, new[day], counts[day]),
        )
        for day, has_ids, _ in days
        if has_ids
    ]
    extended = replace(index, hashes=tuple(hashes), firsts=(*index.firsts, *firsts))
    return extended.since(rule.first_day(runs[-1].day))


def written_pieces(
    context: RunContext, bucket: BucketContext, results: Sequence[BucketResult], count: int
) -> tuple[tuple[IdFile, ...], tuple[IdFile, ...]]:
    """Files of hashes and of first records that buckets have written; none where other tasks have to.

    Duplicates can make fewer files of the new ids than there are buckets; then the files of buckets are read
    to write those.
    """
    is_exact = count > 0 and piece_count(count, context.settings.limits.file_bytes) == bucket.buckets
    if not bucket.writes_firsts or not is_exact:
        return (), ()
    firsts = {each.bucket: each.new.firsts for each in results if each.new.firsts is not None}
    hashes = {each.bucket: each.new.hashes for each in results if each.new.hashes is not None}
    nothing = NewPieces()
    if len(firsts) < bucket.buckets:
        nothing = write_nothing(bucket.lake, with_hashes=bucket.writes_hashes)
    return _filled(hashes, nothing.hashes, bucket.buckets), _filled(firsts, nothing.firsts, bucket.buckets)


def _filled(written: Mapping[int, IdFile], empty: IdFile | None, buckets: int) -> tuple[IdFile, ...]:
    """The files of all buckets, if any has written one; a bucket without new ids has written none."""
    found = (written.get(number, empty) for number in range(buckets))
    return tuple(piece for piece in found if piece is not None) if written else ()


def _new_ids(bucket: BucketContext, day: int, results: Sequence[BucketResult]) -> NewIds:
    files = [(each.bucket, _key_of(bucket, day, each)) for each in results if each.firsts.get(day)]
    return NewIds(day=day, files=tuple(sorted(files)))


def _key_of(bucket: BucketContext, day: int, result: BucketResult) -> str:
    """Where the new first records of a bucket are."""
    if result.new.firsts is not None:
        return state_key(result.new.firsts.digest)
    return f"{bucket.folder}/{first_path(day, result.bucket)}"


def _merged(
    context: RunContext,
    bucket: BucketContext,
    wanted: SortedRun,
    new: Mapping[int, NewIds],
    counts: Mapping[int, int],
) -> tuple[IdFile, ...]:
    """Files of a new sorted run, of earlier runs and new ids between its dates."""
    runs = tuple(each for each in bucket.index.hashes if wanted.first <= each.first <= wanted.last)
    days = [day for day in new if counts[day] and wanted.first <= day <= wanted.last]
    count = sum(each.ids for each in runs) + sum(counts[day] for day in days)
    tasks = piece_tasks(context, bucket, count, runs, tuple(new[day] for day in days))
    return tuple(context.run_tasks(write_hashes, tasks, in_driver=count <= FEW_ROWS))


def _first_records(context: RunContext, bucket: BucketContext, new: NewIds, count: int) -> tuple[IdFile, ...]:
    tasks = piece_tasks(context, bucket, count, (), (new,))
    return tuple(context.run_tasks(write_firsts, tasks, in_driver=count <= FEW_ROWS))


def piece_tasks(
    context: RunContext,
    bucket: BucketContext,
    ids: int,
    runs: tuple[SortedRun, ...],
    new: tuple[NewIds, ...],
) -> list[PieceTask]:
    """A task for each file of so many ids; the number of files depends on nothing else."""
    count = piece_count(ids, context.settings.limits.file_bytes)
    return [
        PieceTask(
            number=number,
            count=count,
            pieces=tuple(piece for run in runs for piece in run.pieces_of(number, count)),
            new=tuple(_within(each, bucket.buckets, bucket_range(number, count)) for each in new),
            lake=bucket.lake,
        )
        for number in range(count)
    ]


def _within(new: NewIds, buckets: int, hashes: tuple[int, int]) -> NewIds:
    """The new ids without files of buckets that have none of these hashes."""
    ranges = ((file, bucket_range(file[0], buckets)) for file in new.files)
    files = (file for file, (first, last) in ranges if first <= hashes[1] and last >= hashes[0])
    return replace(new, files=tuple(files))


# Files without duplicates.


def rewrite(context: RunContext, rule: IdRule, current: RunFiles, extended: Extended) -> list[Rewritten]:
    """Writes the files again that have duplicates; none if there are none."""
    if not extended.found:
        return []
    by_file: dict[int, dict[int, pa.Table | str]] = defaultdict(dict)
    for place, listed in listed_duplicates(context, rule, current, extended):
        number, part = part_of(place)
        by_file[number][part] = listed
    tasks = [
        RewriteTask(
            file=current.files[number],
            found=by_part,
            source=rule.id,
            run_date=context.folder.inputs.day,
            folder=context.folder.key(Step.DEDUPLICATE),
            settings=context.settings,
            lake=context.lake,
        )
        for number, by_part in sorted(by_file.items())
    ]
    return context.run_tasks(rewrite_file, tasks, in_driver=is_little(current.rows, current.bytes))


def listed_duplicates(
    context: RunContext, rule: IdRule, current: RunFiles, extended: Extended
) -> Iterable[tuple[int, pa.Table | str]]:
    """Places of parts with their lists of duplicates, or with keys of lists that the driver cannot hold."""
    if extended.found_bytes <= FEW_FOUND_BYTES:
        return found_by_part(context.lake, extended.found)
    parts: list[FoundPart] = context.shuffle(
        [TaskRows(function=read_found, tasks=[(context.lake, key) for key in extended.found], schema=FOUND)],
        key="place",
        function=partial(put_part, context.lake, _scratch(context, rule, current)),
        name="list duplicates by file",
    ).summaries
    return [(each.place, each.key) for each in parts]


def listing(context: RunContext, results: Sequence[RuleResult]) -> list[TableEntry]:
    """Files that replace those of `materialise`, without rows where none is left, and `duplicates`."""
    entries: list[TableEntry] = []
    duplicates: list[tuple[OutputFile, int]] = []
    for each in (file for result in results for file in result.rewritten):
        output = each.kept or OutputFile(path=each.file.path, size=0, digest="")
        entries += entries_of(
            context.settings.catalog.topics,
            folder_name(each.file.topic),
            [(output, each.file.rows - each.count)],
            topic=each.file.topic,
        )
        duplicates.append((each.duplicates, each.count))
    return [*entries, *entries_of(context.settings.catalog.namespace, DUPLICATES.name, duplicates)]


# What was counted.


def put_facts(context: RunContext, results: Sequence[RuleResult]) -> Iterator[OutputFile]:
    """The tables `duplicate_facts` and `duplicate_counts`."""
    facts = pa.Table.from_pylist(fact_rows(results), schema=DUPLICATE_FACTS.schema)
    counts = pa.Table.from_pylist(count_rows(results), schema=DUPLICATE_COUNTS.schema)
    folder = context.folder.key(Step.DEDUPLICATE)
    yield put_table(context.lake, folder, DUPLICATE_FACTS.file, DUPLICATE_FACTS.cast(facts))
    yield put_table(context.lake, folder, DUPLICATE_COUNTS.file, DUPLICATE_COUNTS.cast(counts))


def fact_rows(results: Sequence[RuleResult]) -> list[dict[str, Any]]:
    """A row per partition with records."""
    found: dict[tuple[str, int], Counter[str]] = defaultdict(Counter)
    for result in results:
        for each in result.counts:
            for name in ("records", "null_ids", "unusable_ids"):
                for partition, count in getattr(each, name).items():
                    found[each.topic, partition][name] += count
        for file in result.rewritten:
            for partition, count in file.by_partition.items():
                found[file.file.topic, partition]["duplicates"] += count
    names = DUPLICATE_FACTS.schema.names[2:]
    return [
        {"topic": topic, "partition": partition, **{name: counts[name] for name in names}}
        for (topic, partition), counts in sorted(found.items())
    ]


def count_rows(results: Sequence[RuleResult]) -> list[dict[str, Any]]:
    """A row per topic, producer and kind of its duplicates."""
    found: Counter[tuple[str, int, str, str]] = Counter()
    for file in (file for result in results for file in result.rewritten):
        for ((producer_id, name), kind), count in file.by_producer.items():
            found[file.file.topic, producer_id, name or "", kind] += count
    return [
        {
            "topic": topic,
            "producer_id": producer_id,
            "transactional_id": name or None,
            "kind": kind,
            "duplicates": count,
        }
        for (topic, producer_id, name, kind), count in sorted(found.items())
    ]


def counts_of(results: Sequence[RuleResult]) -> dict[str, int]:
    """`records` = rows that are published + `duplicates`."""
    facts = fact_rows(results)
    kinds = Counter[str]()
    for row in count_rows(results):
        kinds[row["kind"]] += row["duplicates"]
    return {
        **{name: sum(row[name] for row in facts) for name in DUPLICATE_FACTS.schema.names[2:]},
        **{kind.value: kinds[kind] for kind in DuplicateKind},
        "index_ids": sum(each.index.ids for each in results),
        "index_bytes": sum(each.index.bytes for each in results),
    }


MEANINGS = {
    DuplicateKind.REPEATED: f"repeat an id of the same or an unknown producer within {SECONDS_REPEATED} s",
    DuplicateKind.RESENT: "repeat an id of the same or an unknown producer later, within a day",
    DuplicateKind.FAILOVER: "repeat an id of another producer within a day",
    DuplicateKind.REPLAYED: "repeat an id after more than a day",
}


def messages_of(result: RuleResult) -> Iterator[str]:
    """A sentence for each topic with duplicates, and one for each with unusable ids."""
    kinds: dict[str, Counter[str]] = defaultdict(Counter)
    for row in count_rows([result]):
        kinds[row["topic"]][row["kind"]] += row["duplicates"]
    for topic, counts in sorted(kinds.items()):
        found = " and ".join(f"{counts[kind]:,} {MEANINGS[kind]}" for kind in DuplicateKind if counts[kind])
        yield f"{topic}: {found}; they are in the table duplicates"
    unusable = Counter[str]()
    for row in fact_rows([result]):
        unusable[row["topic"]] += row["unusable_ids"]
    for topic, count in sorted(unusable.items()):
        if count:
            yield f"{topic}: {count:,} records have no usable id; they are published"
