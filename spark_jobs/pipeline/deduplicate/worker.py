"""What the Spark tasks of `deduplicate` do: read ids, decide in buckets of hashes, write files.

`read_ids` reads a file in parts and yields a row for each id of a part. `judge_bucket` has all rows of a
range of hashes, compares them with the index and with each other, and writes new first records and duplicates
to files. If an index of the new ids has as many files as there are buckets, a bucket writes these; otherwise
`write_firsts` and `write_hashes` do. `put_part` has the duplicates of a part of a file, and `rewrite_file`
writes the file again without them.

Memory is bounded whatever ids are repeated: a task holds a part of a file, or the ids of a bucket, in which
an id is at most once for each part.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.execution.shuffle import Note
from spark_jobs.kernels.ids import Hashes, bucket_of, bucket_range, first_rows, hash_ids, places_of
from spark_jobs.kernels.memory import as_bytes
from spark_jobs.lake.errors import Damaged, ObjectMissing
from spark_jobs.lake.iceberg.topic_tables import topic_contract
from spark_jobs.lake.id_index import (
    Days,
    IdFile,
    date_of,
    iter_hashes,
    put_firsts,
    put_hashes,
    read_firsts,
)
from spark_jobs.lake.object_store import ObjectStore
from spark_jobs.lake.parquet_file import ParquetOutput, iter_sized_rows, read_groups, read_table
from spark_jobs.lake.run_folder import OutputFile
from spark_jobs.pipeline.deduplicate.ids import FoundIds, IdState, columns_of, find_ids
from spark_jobs.pipeline.deduplicate.job import (
    FIRST_COLUMNS,
    FOUND,
    LABEL_COLUMNS,
    LABELS,
    NO_FILE,
    OCCURRENCES,
    PACKED,
    SEEN,
    BucketContext,
    BucketResult,
    FileTask,
    FoundPart,
    IdCounts,
    NewIds,
    NewPieces,
    PieceTask,
    ProducerKey,
    RewriteTask,
    Rewritten,
    part_of,
    places_in,
)
from spark_jobs.tables.contract import TIMESTAMP
from spark_jobs.tables.deduplicate import DUPLICATES, FIRST_SCHEMA, SECONDS_REPEATED, DuplicateKind
from spark_jobs.tables.materialise import as_written, record_options
from spark_jobs.tables.publish import OWN_TABLES
from spark_jobs.tables.table_names import folder_name

Places = npt.NDArray[np.int64]

# Ids of a file.

READ = ("partition", "offset", "timestamp", "producer_id", "producer_epoch", "transactional_id")


def read_ids(task: FileTask) -> Iterator[pa.Table | Note]:
    """The ids of a file, packed by bucket, and how many records have none."""
    counts = IdCounts(topic=task.file.topic)
    if task.lake.stat(task.file.key) is None:
        raise ObjectMissing(
            f"{task.lake.url_of(task.file.key)}: its ids cannot be read, since the file of the run of "
            f"{date_of(task.file.day)} does not exist any more; restore it, or shorten the window of 'dedup'"
        )
    parts = iter_sized_rows(task.lake, task.file.key, columns=[*READ, *_unread(task)])
    for part, rows in enumerate(parts):
        found = find_ids(task.source, rows)
        _count(counts, rows, found)
        yield packed(task, part, rows, found)
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


def _occurrences(
    task: FileTask, rows: pa.RecordBatch, found: FoundIds, labels: npt.NDArray[np.int32]
) -> pa.RecordBatch:
    """A row for each id of the part, by hash."""
    present = np.flatnonzero(found.states == IdState.PRESENT)
    hashes = hash_column(
        found.ids.take(present) if present.size < rows.num_rows else found.ids, task.hash_key
    )
    chosen, counts = _first_of_each(rows, found.ids, present, hashes)
    places = present[chosen]
    columns: dict[str, Any] = {
        "hash": hashes[chosen],
        "offset": np.asarray(rows.column("offset"))[places],
        "timestamp": rows.column("timestamp").cast(pa.int64()).take(places),
        "label": labels[places],
        "count": counts.astype(np.int32),
        "row": places.astype(np.int32),
        "id": found.ids.take(places).cast(pa.binary()),
    }
    return pa.record_batch([pa.array(columns[name]) for name in OCCURRENCES.names], schema=OCCURRENCES)


def hash_column(ids: "pa.Array[Any]", key: bytes) -> Hashes:
    """The hash of every id; none is null."""
    if not len(ids):
        return np.empty(0, dtype=np.int64)
    _, offsets, data = ids.buffers()
    assert offsets is not None
    ends = np.frombuffer(memoryview(offsets), dtype=np.int64)[ids.offset : ids.offset + len(ids) + 1]
    return hash_ids(as_bytes(data or b""), ends, key)


def _first_of_each(
    rows: pa.RecordBatch, ids: "pa.Array[Any]", present: Places, hashes: Hashes
) -> tuple[Places, Places]:
    """Of the `present` rows the first with each id, by hash, and how many have the id."""
    order = np.argsort(hashes, kind="stable")
    alike = np.flatnonzero(repeated(hashes[order]))
    kept, counts = np.ones(order.size, dtype=np.bool_), np.ones(order.size, dtype=np.int64)
    if alike.size:
        places = present[order[alike]]
        partitions, offsets = (np.asarray(rows.column(name))[places] for name in ("partition", "offset"))
        first = np.lexsort((offsets, partitions, hashes[order[alike]]))
        order[alike] = order[alike][first]
        codes = np.asarray(ids.take(present[order[alike]]).dictionary_encode().indices)
        _, begins, sizes = np.unique(codes, return_index=True, return_counts=True)
        kept[alike] = False
        kept[alike[begins]] = True
        counts[alike[begins]] = sizes
    return order[kept], counts[kept]


def repeated(hashes: Hashes) -> npt.NDArray[np.bool_]:
    """Which of the sorted hashes are there more than once."""
    same = np.zeros(hashes.size + 1, dtype=np.bool_)
    same[1:-1] = hashes[1:] == hashes[:-1]
    found: npt.NDArray[np.bool_] = same[:-1] | same[1:]
    return found


def label_codes(rows: pa.RecordBatch) -> tuple[pa.RecordBatch, npt.NDArray[np.int32]]:
    """The different labels of rows, and which of them each row has."""
    names = rows.column("transactional_id").dictionary_encode().indices.fill_null(-1)
    numbers = [np.asarray(rows.column(name)) for name in LABEL_COLUMNS if name != "transactional_id"]
    keys = np.stack([*numbers, np.asarray(names)], dtype=np.int64, casting="safe")
    begins = np.flatnonzero(
        np.append(True, (keys[:, 1:] != keys[:, :-1]).any(axis=0))
    )  # records come in batches
    order = np.lexsort(keys[:, begins])
    is_new = np.append(True, (np.diff(keys[:, begins[order]]) != 0).any(axis=0))
    codes = np.empty(begins.size, dtype=np.int32)
    codes[order] = np.cumsum(is_new) - 1
    labels = rows.select(list(LABEL_COLUMNS)).take(begins[order[is_new]])
    return labels, np.repeat(codes, np.diff(np.append(begins, rows.num_rows)))


def packed(task: FileTask, part: int, rows: pa.RecordBatch, found: FoundIds) -> pa.Table:
    """The ids of a part of a file: for each bucket one Arrow record batch, and one of the labels in it."""
    if (found.states != IdState.PRESENT).all():
        return PACKED.empty_table()
    labels, codes = label_codes(rows)
    seen = _occurrences(task, rows, found, codes)
    numbers, begins = np.unique(bucket_of(np.asarray(seen.column("hash")), task.buckets), return_index=True)
    ends = [*begins.tolist(), seen.num_rows][1:]
    parts = [
        _packed_bucket(seen.slice(begin, end - begin), labels)
        for begin, end in zip(begins.tolist(), ends, strict=True)
    ]
    same = {"day": task.file.day, "file": task.number, "part": part, "topic": task.file.topic}
    columns = {
        "bucket": pa.array(numbers),
        **{
            name: pa.repeat(pa.scalar(value, PACKED.field(name).type), numbers.size)
            for name, value in same.items()
        },
        "labels": pa.array([labels for labels, _ in parts], pa.binary()),
        "rows": pa.array([rows for _, rows in parts], pa.binary()),
    }
    return pa.table([columns[name] for name in PACKED.names], schema=PACKED)


def _packed_bucket(rows: pa.RecordBatch, labels: pa.RecordBatch) -> tuple[bytes, bytes]:
    """The labels that rows have, and the rows with the codes of these."""
    codes, used = np.asarray(rows.column("label")), np.zeros(labels.num_rows, dtype=np.bool_)
    used[codes] = True
    kept = labels.filter(pa.array(used)).cast(LABELS)
    coded = _with_labels(rows, (np.cumsum(used) - 1)[codes])
    return kept.serialize().to_pybytes(), coded.serialize().to_pybytes()


def _with_labels(rows: pa.RecordBatch, codes: npt.NDArray[Any]) -> pa.RecordBatch:
    place = OCCURRENCES.get_field_index("label")
    return rows.set_column(place, OCCURRENCES.field(place), pa.array(codes.astype(np.int32)))


@dataclass(frozen=True, slots=True)
class Seen:
    """The occurrences of a bucket; `label` is a row of `labels`, which has all that rows have in common."""

    rows: pa.Table
    labels: pa.Table

    @property
    def num_rows(self) -> int:
        return self.rows.num_rows

    def numbers(self, name: str) -> npt.NDArray[Any]:
        return _numbers(self.rows, name)

    def take(self, places: Places) -> pa.Table:
        """Some rows with their labels as plain columns."""
        rows = self.rows.take(places)
        labels = self.labels.take(rows.column("label").combine_chunks())
        columns = [(rows if name in OCCURRENCES.names else labels).column(name) for name in SEEN.names]
        return pa.table(columns, names=SEEN.names).cast(SEEN)


def unpacked(rows: pa.Table) -> Seen:
    """The occurrences of a bucket."""
    parts, labels, count = list[pa.RecordBatch](), list[pa.Table](), 0
    for row in (row for batch in rows.to_batches() for row in _packed_rows(batch)):
        part = pa.ipc.read_record_batch(row["rows"].as_buffer(), OCCURRENCES)
        parts.append(_with_labels(part, np.asarray(part.column("label")) + count))
        label = pa.table(pa.ipc.read_record_batch(row["labels"].as_buffer(), LABELS))
        for name in ("day", "file", "part", "topic"):
            label = label.append_column(PACKED.field(name), pa.repeat(row[name], label.num_rows))
        labels.append(label)
        count += label.num_rows
    together = pa.Table.from_batches(parts, OCCURRENCES).combine_chunks()
    return Seen(together, pa.concat_tables(labels).combine_chunks())


def _packed_rows(batch: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    for place in range(batch.num_rows):
        yield {name: batch.column(name)[place] for name in PACKED.names}


# A bucket: all ids of a range of hashes.


def first_path(day: int, bucket: int) -> str:
    """Where new first records of a bucket are written."""
    return f"firsts/{day}/{bucket:06d}.parquet"


def found_path(bucket: int) -> str:
    """Where duplicates of a bucket are written."""
    return f"found/{bucket:06d}.parquet"


def part_path(place: int) -> str:
    """Where duplicates of a part of a file are written."""
    file, part = part_of(place)
    return f"found_by_file/{file:06d}-{part:06d}.parquet"


SCRATCH = {"compression": "none", "use_dictionary": ["topic", "first_topic"]}
"""Files between tasks are read once: to compress them costs more than it saves."""


def put_scratch(lake: ObjectStore, folder: str, path: str, table: pa.Table) -> None:
    """Writes a file that only the next task reads."""
    with ParquetOutput(lake, table.schema, SCRATCH) as output:
        output.write(table)
        output.finish(folder, path)


def judge_bucket(context: BucketContext, bucket: int, rows: pa.Table) -> BucketResult:
    """Decides which records are the first with their id; the order of `rows` does not matter."""
    seen = unpacked(rows)
    hashes = seen.numbers("hash")
    order = np.argsort(hashes, kind="stable")
    known = known_firsts(context, bucket, hashes[order], _numbers(seen.labels, "day"))
    is_candidate = repeated(hashes[order]) | (seen.numbers("count")[order] > 1)
    is_candidate[places_of(np.unique(_numbers(known, "hash")), hashes[order])] = True
    candidates = np.flatnonzero(is_candidate)
    order[candidates] = order[candidates][in_order(seen.take(order[candidates]))]
    alike = seen.take(order[candidates])
    firsts = first_records(context, known, alike)
    is_first = np.ones(order.size, dtype=np.bool_)
    is_first[candidates[firsts >= 0]] = False
    counts = _numbers(alike, "count")
    new_firsts, pieces = _put_new(context, bucket, seen.take(order[is_first]))
    return BucketResult(
        bucket=bucket,
        firsts=new_firsts,
        new=pieces,
        duplicates=int(counts.sum() - np.count_nonzero(firsts < 0)),
        found_bytes=_put_found(context, bucket, known, alike, firsts),
    )


def _numbers(table: pa.Table, name: str) -> npt.NDArray[Any]:
    """A column; what has come through Spark may not be aligned."""
    return np.require(np.asarray(table.column(name).combine_chunks()), requirements="A")


def in_order(rows: pa.Table) -> Places:
    """By hash, then by run date, topic, partition and offset: of equal ids the first comes first."""
    topics = rows.column("topic").combine_chunks().dictionary_encode()
    ranks = np.argsort(np.argsort(np.array(topics.dictionary.to_pylist(), dtype=object)))
    by_topic = ranks[np.asarray(topics.indices)] if len(ranks) else np.empty(0, dtype=np.int64)
    names = ("offset", "partition", "day", "hash")
    offsets, partitions, days, hashes = (_numbers(rows, name) for name in names)
    return np.lexsort((offsets, partitions, by_topic, days, hashes))


KNOWN = FIRST_SCHEMA.append(pa.field("day", pa.int32()))


def known_firsts(context: BucketContext, bucket: int, hashes: Hashes, days: Days) -> pa.Table:
    """First records of earlier runs for these sorted hashes, by ascending run date, within the window."""
    by_day: dict[int, list[Hashes]] = {}
    for run in context.index.hashes:
        pieces = run.pieces_of(bucket, context.buckets)
        for found, when in iter_hashes(context.lake, pieces, bucket, context.buckets):
            hits = places_of(hashes, found)
            for day in np.unique(when[hits]).tolist():
                by_day.setdefault(day, []).append(found[hits[when[hits] == day]])
    first_day = context.rule.first_day(int(days.min()))
    known = [KNOWN.empty_table()]
    for day, parts in sorted(by_day.items()):
        if day >= first_day:
            rows = _first_rows(context, bucket, day, np.unique(np.concatenate(parts)))
            known.append(rows.append_column("day", pa.array(np.full(rows.num_rows, day, dtype=np.int32))))
    return pa.concat_tables(known)


def _first_rows(context: BucketContext, bucket: int, day: int, hashes: Hashes) -> pa.Table:
    """First records of a run date; the index has some for each of these hashes."""
    run = context.index.first_records(day)
    rows = FIRST_SCHEMA.empty_table()
    if run is not None:
        rows = read_firsts(context.lake, run, bucket, context.buckets, hashes)
    missing = np.setdiff1d(hashes, _numbers(rows, "hash"))
    if missing.size:
        raise Damaged(
            f"index of business ids of {context.rule.name}: it has no first record for {missing.size} of the "
            f"hashes of {date_of(day)}, so duplicates cannot be decided; run a backfill from that date"
        )
    return rows


ALL_HISTORY = 1 << 40
"""A window of more days than there are."""


def first_records(context: BucketContext, known: pa.Table, rows: pa.Table) -> Places:
    """For each row its first record, a place among `known` and then `rows`; -1 if it is one itself.

    Every hit is decided on the id itself.
    """
    both = pa.concat_tables([known.select(["id", "day"]), rows.select(["id", "day"])])
    codes = both.column("id").combine_chunks().dictionary_encode().indices
    window = context.rule.window if context.rule.window is not None else ALL_HISTORY
    found = first_rows(np.asarray(codes), _numbers(both, "day"), known=known.num_rows, window=window)
    return found[known.num_rows :]


def _put_found(context: BucketContext, bucket: int, known: pa.Table, rows: pa.Table, firsts: Places) -> int:
    """Writes the ids of which files of this run have duplicates; returns their size, 0 if there are none."""
    files, counts = _numbers(rows, "file"), _numbers(rows, "count")
    chosen = np.flatnonzero((files != NO_FILE) & ((firsts >= 0) | (counts > 1)))
    if not chosen.size:
        return 0
    names = ["day", *FIRST_COLUMNS]
    itself = known.num_rows + chosen
    both = pa.concat_tables([known.select(names), rows.select(names)])
    first = both.take(np.where(firsts[chosen] >= 0, firsts[chosen], itself))
    columns = {
        "place": places_in(files[chosen], _numbers(rows, "part")[chosen]),
        **{name: rows.column(name).take(chosen) for name in ("row", "count", "id")},
        **{f"first_{name}": first.column(name) for name in names},
    }
    table = pa.table([columns[name] for name in FOUND.names], names=FOUND.names).cast(FOUND)
    put_scratch(context.lake, context.folder, found_path(bucket), table)
    return table.nbytes


def _put_new(context: BucketContext, bucket: int, rows: pa.Table) -> tuple[dict[int, int], NewPieces]:
    """Writes new first records; returns how many each run date has, and files of the index."""
    if not context.writes_firsts or not rows.num_rows:
        return _put_firsts(context, bucket, rows), NewPieces()
    days = _numbers(rows, "day")
    firsts, hashes = put_firsts(context.lake, rows), None
    if context.writes_hashes:
        hashes = put_hashes(context.lake, _numbers(rows, "hash"), days)
    return {int(days[0]): rows.num_rows}, NewPieces(firsts=firsts, hashes=hashes)


def _put_firsts(context: BucketContext, bucket: int, rows: pa.Table) -> dict[int, int]:
    days = _numbers(rows, "day")
    counts: dict[int, int] = {}
    for day in np.unique(days).tolist():
        same = rows if days.min() == days.max() else rows.filter(pa.array(days == day))
        put_scratch(context.lake, context.folder, first_path(day, bucket), same.select(FIRST_SCHEMA.names))
        counts[day] = same.num_rows
    return counts


# Files of the index.


def write_hashes(task: PieceTask) -> IdFile:
    """A file of hashes: those of earlier runs and new ones, by hash and date."""
    parts = list(iter_hashes(task.lake, task.pieces, task.number, task.count))
    parts += [_new_hashes(task, new) for new in task.new]
    hashes = np.concatenate([np.empty(0, np.int64), *(hashes for hashes, _ in parts)])
    days = np.concatenate([np.empty(0, np.int32), *(days for _, days in parts)])
    order = np.argsort(hashes, kind="stable")  # parts ascend by date, and merging sorted parts is quick
    return put_hashes(task.lake, hashes[order], days[order])


def write_firsts(task: PieceTask) -> IdFile:
    """A file of first records of one run date."""
    [new] = task.new
    return put_firsts(task.lake, _new_rows(task, new, FIRST_SCHEMA.names))


def write_nothing(lake: ObjectStore, *, with_hashes: bool) -> NewPieces:
    """Files of the index without ids, for a range of hashes that has none."""
    hashes, days = np.empty(0, np.int64), np.empty(0, np.int32)
    return NewPieces(
        firsts=put_firsts(lake, FIRST_SCHEMA.empty_table()),
        hashes=put_hashes(lake, hashes, days) if with_hashes else None,
    )


def _new_hashes(task: PieceTask, new: NewIds) -> tuple[Hashes, Days]:
    hashes = _numbers(_new_rows(task, new, ["hash"]), "hash")
    return hashes, np.full(hashes.size, new.day, dtype=np.int32)


def _new_rows(task: PieceTask, new: NewIds, columns: list[str]) -> pa.Table:
    """New first records within the range of the file; buckets ascend, so they are sorted by hash."""
    first, last = bucket_range(task.number, task.count)
    schema = pa.schema([FIRST_SCHEMA.field(name) for name in columns])
    found = [schema.empty_table()]
    for _, key in new.files:
        rows = read_groups(task.lake, key, "hash", first, last, columns=columns).cast(schema)
        hashes = _numbers(rows, "hash")
        start, stop = np.searchsorted(hashes, first, "left"), np.searchsorted(hashes, last, "right")
        found.append(rows.slice(int(start), int(stop - start)))
    return pa.concat_tables(found)


# A file with duplicates.

GROUP_BYTES = 64 * 2**20
DAY_MICROSECONDS = timedelta(days=1) // timedelta(microseconds=1)
REPEATED_MICROSECONDS = timedelta(seconds=SECONDS_REPEATED) // timedelta(microseconds=1)


def read_found(task: tuple[ObjectStore, str]) -> Iterator[pa.Table]:
    """The duplicates that a bucket has found."""
    yield found_rows(*task)


def found_rows(lake: ObjectStore, found: pa.Table | str) -> pa.Table:
    """A list of duplicates, or the one in the file of that key."""
    return read_table(lake, found).cast(FOUND) if isinstance(found, str) else found


def found_by_part(lake: ObjectStore, keys: Sequence[str]) -> Iterator[tuple[int, pa.Table]]:
    """The duplicates that buckets have found, by the place of their part; all of them are in memory."""
    found = pa.concat_tables(found_rows(lake, key) for key in keys).combine_chunks()
    order = np.argsort(_numbers(found, "place"), kind="stable")
    places, begins = np.unique(_numbers(found, "place")[order], return_index=True)
    for place, rows in zip(places.tolist(), np.split(order, begins[1:]), strict=True):
        yield place, found.take(rows)


def put_part(lake: ObjectStore, folder: str, place: int, found: pa.Table) -> FoundPart:
    """Writes the duplicates of one part of a file."""
    put_scratch(lake, folder, part_path(place), found)
    return FoundPart(place=place, key=f"{folder}/{part_path(place)}")


class Groups:
    """Rows on their way to a Parquet file, written in row groups of about `GROUP_BYTES`."""

    def __init__(self, output: ParquetOutput) -> None:
        self._output, self.rows = output, 0
        self._held: list[pa.Table] = []

    def add(self, rows: pa.Table) -> None:
        if not rows.num_rows:
            return
        self.rows += rows.num_rows
        self._held.append(rows)
        if sum(table.nbytes for table in self._held) >= GROUP_BYTES:
            self.write()

    def write(self) -> None:
        """Writes what is held."""
        if self._held:
            self._output.write(pa.concat_tables(self._held).unify_dictionaries())
            self._held.clear()

    def finish(self, folder: str, path: str) -> OutputFile:
        self.write()
        return self._output.finish(folder, path)


def rewrite_file(task: RewriteTask) -> Rewritten:
    """Writes the file without its duplicates, and its rows of the table `duplicates`."""
    file, table = task.file, OWN_TABLES[DUPLICATES.name].schema
    schema = as_written(topic_contract(task.settings, file.topic, folder_name(file.topic)).schema)
    by_partition, by_producer = Counter[int](), Counter[tuple[ProducerKey, str]]()
    with (
        ParquetOutput(task.lake, schema, {"store_schema": False, **record_options(schema)}) as output,
        ParquetOutput(task.lake, table) as other,
    ):
        kept, duplicates = Groups(output), Groups(other)
        for part, rows in enumerate(iter_sized_rows(task.lake, file.key)):
            rest, later = divided(task, part, rows)
            kept.add(rest.select(schema.names).cast(schema))
            duplicates.add(later)
            for row in rows_by(later, ["partition"]):
                by_partition[row["partition"]] += row["count_all"]
            for row in rows_by(later, ["producer_id", "transactional_id", "kind"]):
                producer = row["producer_id"], row["transactional_id"]
                by_producer[producer, row["kind"]] += row["count_all"]
        name = file.path.removesuffix(".parquet").replace("/", "-")
        return Rewritten(
            file=file,
            kept=kept.finish(task.folder, file.path) if kept.rows else None,
            duplicates=duplicates.finish(task.folder, DUPLICATES.file_of(file=name)),
            by_partition=by_partition,
            by_producer=by_producer,
        )


def divided(task: RewriteTask, part: int, rows: pa.RecordBatch) -> tuple[pa.Table, pa.Table]:
    """Rows of a part that stay, and rows of the table `duplicates`."""
    if part not in task.found:
        return pa.table(rows), OWN_TABLES[DUPLICATES.name].schema.empty_table()
    found = found_rows(task.lake, task.found[part])
    known, which = listed_rows(task.source, rows, found)
    if np.unique(which).size < found.num_rows:
        raise Damaged(
            f"{task.lake.url_of(task.file.key)}: part {part} lacks ids that were read from it before"
        )
    is_later = ~_is_first(task, rows.select(["partition", "offset"]).take(known), found.take(which))
    taken = np.zeros(rows.num_rows, dtype=np.bool_)
    taken[known[is_later]] = True
    later = pa.table(rows.filter(pa.array(taken)))
    return pa.table(rows.filter(pa.array(~taken))), duplicate_rows(task, later, found.take(which[is_later]))


def listed_rows(
    source: str | tuple[str, ...], rows: pa.RecordBatch, found: pa.Table
) -> tuple[Places, Places]:
    """The rows with a listed id, ascending, and which one; ids are read again from the rows.

    If the part has each of the ids once, only the rows that `found` names are read.
    """
    listed = found.column("id").combine_chunks()
    if (_numbers(found, "count") > 1).any():
        places = pc.index_in(find_ids(source, rows).ids.cast(pa.binary()), value_set=listed)
        return np.flatnonzero(np.asarray(places.is_valid())), np.asarray(places.drop_null())
    which = np.argsort(_numbers(found, "row"))
    known = _numbers(found, "row")[which].astype(np.int64)
    known, which = known[known < rows.num_rows], which[known < rows.num_rows]
    again = find_ids(source, rows.select(columns_of(source)).take(known)).ids.cast(pa.binary())
    is_same = np.asarray(pc.equal(again, listed.take(which)).fill_null(False))
    return known[is_same], which[is_same]


def _is_first(task: RewriteTask, rows: pa.RecordBatch, found: pa.Table) -> npt.NDArray[np.bool_]:
    """Which rows are themselves the first record that was found."""
    topics = found.column("first_topic").combine_chunks()
    same: npt.NDArray[np.bool_] = np.asarray(pc.equal(topics, pa.scalar(task.file.topic)))
    same = same & (_numbers(found, "first_day") == task.file.day)
    for name in ("partition", "offset"):
        same &= _numbers(found, f"first_{name}") == np.asarray(rows.column(name))
    return same


def rows_by(rows: pa.Table, names: list[str]) -> list[dict[str, Any]]:
    """How many rows have the same values of these columns, as `count_all`."""
    return rows.group_by(names, use_threads=False).aggregate([([], "count_all")]).to_pylist()


def duplicate_rows(task: RewriteTask, later: pa.Table, found: pa.Table) -> pa.Table:
    """Rows of the table `duplicates`: records of the file and, in the same order, what was found of them."""
    schema, count = OWN_TABLES[DUPLICATES.name].schema, later.num_rows
    columns = {
        **{name: later.column(name) for name in later.column_names},
        **{name: found.column(name) for name in FOUND.names},
        "topic": pa.repeat(pa.scalar(task.file.topic, pa.string()), count),
        "run_date": pa.repeat(pa.scalar(task.run_date, pa.date32()), count),
        "first_run_date": found.column("first_day").cast(pa.date32()),
        "first_timestamp": found.column("first_timestamp").cast(pa.timestamp("us")).cast(TIMESTAMP),
        "kind": kinds_of(task.file.day, later, found),
    }
    return pa.table([columns[name] for name in schema.names], names=schema.names).cast(schema)


def kinds_of(day: int, later: pa.Table, found: pa.Table) -> Any:
    """What each duplicate points to; records without a timestamp are compared by run date.

    Two records without a producer id are not known to be of different producers: they count as of the same.
    """
    between = pc.abs(pc.subtract(later.column("timestamp").cast(pa.int64()), found.column("first_timestamp")))
    days = pc.subtract(pa.scalar(day, pa.int32()), found.column("first_day"))
    is_late = _is_more(between, DAY_MICROSECONDS, days, 1)
    is_delayed = _is_more(between, REPEATED_MICROSECONDS, days, 0)
    is_same = pc.coalesce(
        *(
            pc.equal(
                later.column(name).cast(FOUND.field(f"first_{name}").type), found.column(f"first_{name}")
            )
            for name in ("transactional_id", "producer_id")
        )
    )
    of_same = pc.if_else(is_delayed, DuplicateKind.RESENT.value, DuplicateKind.REPEATED.value)
    nearby = pc.if_else(is_same, of_same, DuplicateKind.FAILOVER.value)
    return pc.if_else(is_late, DuplicateKind.REPLAYED.value, nearby)


def _is_more(between: Any, most: int, days: Any, most_days: int) -> Any:
    """Whether more microseconds are between timestamps; without these, more days between run dates."""
    return pc.coalesce(
        pc.greater(between, pa.scalar(most, pa.int64())), pc.greater(days, pa.scalar(most_days, pa.int32()))
    )


def outputs_of(rewritten: Rewritten) -> Iterator[OutputFile]:
    """The files that were written."""
    if rewritten.kept is not None:
        yield rewritten.kept
    yield rewritten.duplicates
