"""What the Spark tasks of `deduplicate` do: read ids, decide in buckets of hashes, rewrite files.

`read_ids` yields a row per record with an id. `judge_bucket` has all rows of a range of hashes, compares them
with the index and with each other, and writes new first records and duplicates to files. `rewrite_file` has
all duplicates of one file and writes it again without them. `write_hashes` and `write_firsts` write files of
the index.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.execution.shuffle import Note
from spark_jobs.kernels.ids import Hashes, bucket_of, bucket_range, hash_ids, places_of
from spark_jobs.kernels.memory import as_bytes
from spark_jobs.lake.errors import Damaged, ObjectMissing
from spark_jobs.lake.iceberg.topic_tables import topic_contract
from spark_jobs.lake.id_index import Days, Piece, date_of, put_firsts, put_hashes, read_firsts, read_hashes
from spark_jobs.lake.object_store import ObjectStore
from spark_jobs.lake.parquet_file import ParquetOutput, iter_sized_rows, put_table, read_groups, read_table
from spark_jobs.lake.run_folder import OutputFile
from spark_jobs.pipeline.deduplicate.ids import FoundIds, IdState, columns_of, find_ids
from spark_jobs.pipeline.deduplicate.job import (
    FIRST_COLUMNS,
    FOUND,
    NO_FILE,
    OCCURRENCES,
    BucketContext,
    BucketResult,
    FileTask,
    IdCounts,
    NewIds,
    PieceTask,
    RecordFile,
    RewriteContext,
    Rewritten,
)
from spark_jobs.tables.contract import TIMESTAMP
from spark_jobs.tables.deduplicate import DUPLICATES, FIRST_SCHEMA, DuplicateKind
from spark_jobs.tables.materialise import as_written, record_options
from spark_jobs.tables.publish import OWN_TABLES
from spark_jobs.tables.table_names import folder_name

# Ids of a file.

READ = ("partition", "offset", "timestamp", "producer_id", "producer_epoch", "transactional_id")


def read_ids(task: FileTask) -> Iterator[pa.Table | Note]:
    """The records of a file that have an id, and how many have none."""
    counts, row = IdCounts(topic=task.file.topic), 0
    if task.lake.stat(task.file.key) is None:
        raise ObjectMissing(
            f"{task.lake.url_of(task.file.key)}: its ids cannot be read, since the file of the run of "
            f"{date_of(task.file.day)} does not exist any more; restore it, or shorten the window of 'dedup'"
        )
    for rows in iter_sized_rows(task.lake, task.file.key, columns=[*READ, *_unread(task)]):
        found = find_ids(task.source, rows)
        _count(counts, rows, found)
        yield _occurrences(task, rows, found, row)
        row += rows.num_rows
    yield Note(counts)


def _unread(task: FileTask) -> list[str]:
    return [name for name in columns_of(task.source) if name not in READ]


def _count(counts: IdCounts, rows: pa.RecordBatch, found: FoundIds) -> None:
    partitions = np.asarray(rows.column("partition"))
    for counter, chosen in (
        (counts.records, partitions),
        (counts.null_ids, partitions[found.states == IdState.NULL]),
        (counts.unusable_ids, partitions[found.states == IdState.UNUSABLE]),
    ):
        values, sums = np.unique(chosen, return_counts=True)
        counter.update(dict(zip(values.tolist(), sums.tolist(), strict=True)))


def _occurrences(task: FileTask, rows: pa.RecordBatch, found: FoundIds, first_row: int) -> pa.Table:
    chosen = np.flatnonzero(found.states == IdState.PRESENT)
    present, ids = rows.take(chosen), found.ids.take(chosen)
    hashes = hash_column(ids, task.hash_key)
    count = chosen.size
    columns = {
        "bucket": bucket_of(hashes, task.buckets),
        "day": np.full(count, task.file.day, dtype=np.int32),
        "file": np.full(count, task.number, dtype=np.int32),
        "row": chosen + first_row,
        "hash": hashes,
        "topic": pa.array([task.file.topic]).take(np.zeros(count, dtype=np.int8)),
        "timestamp": present.column("timestamp").cast(pa.int64()),
        "id": ids.cast(pa.binary()),
        **{name: present.column(name) for name in READ if name != "timestamp"},
    }
    return pa.table([columns[name] for name in OCCURRENCES.names], names=OCCURRENCES.names).cast(OCCURRENCES)


def hash_column(ids: "pa.Array[Any]", key: bytes) -> Hashes:
    """The hash of every id; none is null."""
    if not len(ids):
        return np.empty(0, dtype=np.int64)
    _, offsets, data = ids.buffers()
    assert offsets is not None
    ends = np.frombuffer(memoryview(offsets), dtype=np.int64)[ids.offset : ids.offset + len(ids) + 1]
    return hash_ids(as_bytes(data or b""), ends, key)


# A bucket: all records of a range of hashes.

Row = Mapping[str, Any]


def first_path(day: int, bucket: int) -> str:
    """Where new first records of a bucket are written."""
    return f"firsts/{day}/{bucket:06d}.parquet"


def found_path(bucket: int) -> str:
    """Where duplicates of a bucket are written."""
    return f"found/{bucket:06d}.parquet"


def judge_bucket(context: BucketContext, bucket: int, rows: pa.Table) -> BucketResult:
    """Decides which records are the first with their id; the order of `rows` does not matter."""
    ordered = in_order(rows)
    hashes = np.asarray(ordered.column("hash").combine_chunks())
    first_day = context.rule.first_day(int(np.asarray(ordered.column("day").combine_chunks()).min()))
    known = known_firsts(context, bucket, np.unique(hashes), first_day)
    hits = np.array(sorted({hash_ for hash_, _ in known}), dtype=np.int64)
    candidates = np.flatnonzero(repeated(hashes) | np.isin(hashes, hits))
    duplicates = find_duplicates(context, ordered.take(candidates), candidates, known)
    is_first = np.ones(hashes.size, dtype=np.bool_)
    is_first[list(duplicates)] = False
    _put_found(context, bucket, ordered, duplicates)
    return BucketResult(
        bucket=bucket,
        firsts=_put_firsts(context, bucket, ordered.filter(pa.array(is_first))),
        duplicates=len(duplicates),
    )


def in_order(rows: pa.Table) -> pa.Table:
    """By hash, then by run date, topic, partition and offset: of equal ids the first comes first."""
    names = ("hash", "day", "topic", "partition", "offset")
    return rows.sort_by([(name, "ascending") for name in names])


def repeated(hashes: Hashes) -> npt.NDArray[np.bool_]:
    """Which of the sorted hashes are there more than once."""
    same = np.concatenate([[False], hashes[1:] == hashes[:-1], [False]])[: hashes.size + 1]
    found: npt.NDArray[np.bool_] = same[:-1] | same[1:] if hashes.size else np.zeros(0, dtype=np.bool_)
    return found


def known_firsts(
    context: BucketContext, bucket: int, hashes: Hashes, first_day: int
) -> dict[tuple[int, bytes], list[Row]]:
    """First records of earlier runs by hash and id, for these sorted hashes; by ascending run date.

    Dates before `first_day` are outside of the window.
    """
    by_day: dict[int, list[Hashes]] = {}
    for run in context.index.hashes:
        found, days = read_hashes(context.lake, run, bucket, context.buckets)
        hits = places_of(hashes, found)
        for day in np.unique(days[hits]).tolist():
            by_day.setdefault(day, []).append(found[hits[days[hits] == day]])
    known: dict[tuple[int, bytes], list[Row]] = {}
    for day, parts in sorted(by_day.items()):
        if day >= first_day:
            for row in _first_rows(context, bucket, day, np.unique(np.concatenate(parts))).to_pylist():
                known.setdefault((row["hash"], row["id"]), []).append({**row, "day": day})
    return known


def _first_rows(context: BucketContext, bucket: int, day: int, hashes: Hashes) -> pa.Table:
    """First records of a run date; the index has some for each of these hashes."""
    run = context.index.first_records(day)
    rows = FIRST_SCHEMA.empty_table()
    if run is not None:
        rows = read_firsts(context.lake, run, bucket, context.buckets, hashes)
    missing = np.setdiff1d(hashes, np.asarray(rows.column("hash").combine_chunks()))
    if missing.size:
        raise Damaged(
            f"index of business ids of {context.rule.name}: it has no first record for {missing.size} of the "
            f"hashes of {date_of(day)}, so duplicates cannot be decided; run a backfill from that date"
        )
    return rows


def find_duplicates(
    context: BucketContext,
    rows: pa.Table,
    places: npt.NDArray[np.int64],
    known: dict[tuple[int, bytes], list[Row]],
) -> dict[int, Row]:
    """The first record of each duplicate, by its place; every hit is decided on the id itself."""
    newest = {each: firsts[-1] for each, firsts in known.items()}
    found: dict[int, Row] = {}
    for place, row in zip(places.tolist(), rows.to_pylist(), strict=True):
        first = newest.get((row["hash"], row["id"]))
        if first is not None and first["day"] >= context.rule.first_day(row["day"]):
            found[place] = first
        else:
            newest[row["hash"], row["id"]] = row
    return found


def _put_found(context: BucketContext, bucket: int, rows: pa.Table, duplicates: Mapping[int, Row]) -> None:
    """Writes the duplicates that are in files of this run."""
    places = list(duplicates)
    later = rows.take(pa.array(places, pa.int64())).select(["file", "row", "id"])
    firsts = list(duplicates.values())
    for name in ("day", *FIRST_COLUMNS):
        kind = FOUND.field(f"first_{name}").type
        later = later.append_column(f"first_{name}", pa.array([first[name] for first in firsts], kind))
    current = later.filter(pc.not_equal(later.column("file"), pa.scalar(NO_FILE, pa.int32())))
    if current.num_rows:
        put_table(context.lake, context.folder, found_path(bucket), current.select(FOUND.names).cast(FOUND))


def _put_firsts(context: BucketContext, bucket: int, rows: pa.Table) -> dict[int, int]:
    days = np.asarray(rows.column("day").combine_chunks())
    counts: dict[int, int] = {}
    for day in np.unique(days).tolist():
        table = rows.filter(pa.array(days == day)).select(FIRST_SCHEMA.names).cast(FIRST_SCHEMA)
        put_table(context.lake, context.folder, first_path(day, bucket), table)
        counts[day] = table.num_rows
    return counts


# A file with duplicates.

GROUP_BYTES = 64 * 2**20
DAY = timedelta(days=1)
DAY_MICROSECONDS = DAY // timedelta(microseconds=1)


def read_found(task: tuple[ObjectStore, str]) -> Iterator[pa.Table]:
    """The duplicates that a bucket has found."""
    lake, key = task
    yield read_table(lake, key).cast(FOUND)


def rewrite_file(context: RewriteContext, number: int, found: pa.Table) -> Rewritten:
    """Writes the file without its duplicates, and its rows of the table `duplicates`."""
    file, ordered = context.files[number], found.sort_by("row")
    places = np.asarray(ordered.column("row").combine_chunks())
    schema = as_written(topic_contract(context.settings, file.topic, folder_name(file.topic)).schema)
    taken: list[pa.Table] = []
    with ParquetOutput(context.lake, schema, {"store_schema": False, **record_options(schema)}) as output:
        kept = _write_kept(iter_sized_rows(context.lake, file.key), places, output, taken, schema=schema)
        written = output.finish(context.folder, file.path) if kept else None
    later = pa.concat_tables(taken)
    table = duplicate_rows(context, file, later, ordered)
    name = file.path.removesuffix(".parquet").replace("/", "-")
    partitions, ids, names, kinds = (
        _values(table, name) for name in ("partition", "producer_id", "transactional_id", "kind")
    )
    return Rewritten(
        file=file,
        kept=written,
        duplicates=put_table(context.lake, context.folder, DUPLICATES.file_of(file=name), table),
        by_partition=Counter(partitions),
        by_producer=Counter(zip(zip(ids, names, strict=True), kinds, strict=True)),
    )


def _values(table: pa.Table, name: str) -> list[Any]:
    return table.column(name).to_pylist()


def _write_kept(
    parts: Iterator[pa.RecordBatch],
    places: npt.NDArray[np.int64],
    output: ParquetOutput,
    taken: list[pa.Table],
    *,
    schema: pa.Schema,
) -> int:
    """Writes all rows except those at `places`, which are `taken`; returns how many it has written."""
    held: list[pa.Table] = []
    start = written = 0
    for rows in parts:
        is_taken = np.isin(np.arange(start, start + rows.num_rows), places)
        taken.append(pa.table(rows.filter(pa.array(is_taken))))
        held.append(pa.table(rows.filter(pa.array(~is_taken))).select(schema.names).cast(schema))
        start += rows.num_rows
        if sum(table.nbytes for table in held) >= GROUP_BYTES:
            written += _write_group(output, held)
    return written + _write_group(output, held)


def _write_group(output: ParquetOutput, held: list[pa.Table]) -> int:
    group = pa.concat_tables(held) if held else None
    held.clear()
    if group is None or not group.num_rows:
        return 0
    output.write(group.unify_dictionaries())
    return int(group.num_rows)


def duplicate_rows(context: RewriteContext, file: RecordFile, later: pa.Table, found: pa.Table) -> pa.Table:
    """Rows of the table `duplicates`: records of the file and, in the same order, what was found of them."""
    schema, count = OWN_TABLES[DUPLICATES.name].schema, later.num_rows
    columns = {
        **{name: later.column(name) for name in later.column_names},
        **{name: found.column(name) for name in FOUND.names},
        "topic": pa.array([file.topic] * count, pa.string()),
        "run_date": pa.array([context.run_date] * count, pa.date32()),
        "first_run_date": found.column("first_day").cast(pa.date32()),
        "first_timestamp": found.column("first_timestamp").cast(pa.timestamp("us")).cast(TIMESTAMP),
        "kind": pa.array(_kinds(file, later, found), pa.string()),
    }
    return pa.table([columns[name] for name in schema.names], names=schema.names).cast(schema)


def _kinds(file: RecordFile, later: pa.Table, found: pa.Table) -> list[str]:
    names = ("timestamp", "producer_id", "transactional_id")
    times = later.column("timestamp").cast(pa.int64())
    one = zip(times.to_pylist(), *(_values(later, name) for name in names[1:]), strict=True)
    other = zip(*(_values(found, f"first_{name}") for name in names), strict=True)
    days = (file.day - day for day in _values(found, "first_day"))
    return [kind_of(*each).value for each in zip(one, other, days, strict=True)]


Sent = tuple[int | None, int, str | None]
"""When a record was sent, in microseconds since 1970, and its producer id and transactional id."""


def kind_of(later: Sent, first: Sent, days: int) -> DuplicateKind:
    """What the duplicate points to; `days` are between both runs, for records without a timestamp.

    Two records without a producer id are not known to be of different producers, so they are `repeated`.
    """
    is_late = days > 1
    if later[0] is not None and first[0] is not None:
        is_late = abs(later[0] - first[0]) > DAY_MICROSECONDS
    if is_late:
        return DuplicateKind.REPLAYED
    has_names = later[2] is not None and first[2] is not None
    is_same = later[2] == first[2] if has_names else later[1] == first[1]
    return DuplicateKind.REPEATED if is_same else DuplicateKind.FAILOVER


def outputs_of(rewritten: Rewritten) -> Iterator[OutputFile]:
    """The files that were written."""
    if rewritten.kept is not None:
        yield rewritten.kept
    yield rewritten.duplicates


def write_hashes(task: PieceTask) -> Piece:
    """A file of hashes: those of earlier runs and new ones, sorted."""
    parts = [read_hashes(task.lake, run, task.number, task.count) for run in task.runs]
    parts += [_new_hashes(task, new) for new in task.new]
    hashes = np.concatenate([np.empty(0, np.int64), *(hashes for hashes, _ in parts)])
    days = np.concatenate([np.empty(0, np.int32), *(days for _, days in parts)])
    order = np.lexsort((days, hashes))
    return put_hashes(task.lake, hashes[order], days[order])


def write_firsts(task: PieceTask) -> Piece:
    """A file of first records of one run date."""
    [new] = task.new
    return put_firsts(task.lake, _new_rows(task, new))


def _new_hashes(task: PieceTask, new: NewIds) -> tuple[Hashes, Days]:
    hashes = np.asarray(_new_rows(task, new).column("hash").combine_chunks())
    return hashes, np.full(hashes.size, new.day, dtype=np.int32)


def _new_rows(task: PieceTask, new: NewIds) -> pa.Table:
    """New first records within the range of the file; buckets ascend, so they are sorted by hash."""
    first, last = bucket_range(task.number, task.count)
    found = [FIRST_SCHEMA.empty_table()]
    for bucket, key in new.files:
        begin, end = bucket_range(bucket, task.buckets)
        if begin <= last and end >= first:
            rows = read_groups(task.lake, key, "hash", first, last).cast(FIRST_SCHEMA)
            hashes = np.asarray(rows.column("hash").combine_chunks())
            found.append(rows.filter(pa.array((hashes >= first) & (hashes <= last))))
    return pa.concat_tables(found)
