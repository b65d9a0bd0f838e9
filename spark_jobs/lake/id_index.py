"""The index of business ids: sorted hashes of all ids in a few runs, and first records by run date.

An index is a value: a run starts from that of the run before and ends with another one; files are named by
their SHA-256 and never change. Hashes of a run date are a sorted run of level 0. `FAN_OUT` neighbouring runs
of one level become one of the next level. This depends on the run dates only, so that equal histories have
equal files. A run has more files the more ids it has; each holds a range of hashes.

Hashes are Parquet with DELTA_BINARY_PACKED: 5 to 7 bytes for each id with its run date (decision 0036).
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from functools import reduce
from itertools import groupby
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from spark_jobs.config.canonical import digest_of
from spark_jobs.flow import Step
from spark_jobs.kernels.ids import Hashes, bucket_range, places_of
from spark_jobs.lake.chain import Chain
from spark_jobs.lake.layout import state_key, step_key
from spark_jobs.lake.object_store import ObjectStore
from spark_jobs.lake.parquet_file import iter_groups, iter_groups_where, put_table, read_table
from spark_jobs.lake.run_folder import EMPTY_STATE, OutputFile, RunFolder
from spark_jobs.lake.states import put_content
from spark_jobs.tables.deduplicate import FIRST_SCHEMA, HASH_SCHEMA, ID_INDEX, PieceKind

FAN_OUT = 8
BYTES_PER_ID = 256
"""Of `limits.file_bytes`: a file of the index holds at most that many bytes divided by this many ids."""
HASH_GROUP, FIRST_GROUP = 1 << 17, 1 << 12
"""Rows of a row group: what is read at least."""
EPOCH = date(1970, 1, 1)

Days = npt.NDArray[np.int32]


def day_number(day: date) -> int:
    """Days since 1970."""
    return (day - EPOCH).days


def date_of(day: int) -> date:
    """The date of a day number."""
    return EPOCH + timedelta(days=day)


@dataclass(frozen=True, slots=True, kw_only=True)
class IdFile:
    """A file of the index in the lake."""

    digest: str
    ids: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SortedRun:
    """Hashes, or first records, of ids that were first seen from run date `first` to `last`, as day numbers.

    Its pieces are a power of two; each has the same share of the range of hashes.
    """

    first: int
    last: int
    level: int = 0
    pieces: tuple[IdFile, ...] = ()

    @property
    def ids(self) -> int:
        return sum(piece.ids for piece in self.pieces)

    @property
    def bytes(self) -> int:
        return sum(piece.bytes for piece in self.pieces)

    def pieces_of(self, bucket: int, buckets: int) -> tuple[IdFile, ...]:
        """The pieces that hold hashes of a bucket."""
        count = len(self.pieces)
        if count >= buckets:
            share = count // buckets
            return self.pieces[bucket * share : (bucket + 1) * share]
        return (self.pieces[bucket * count // buckets],) if count else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class IdIndex:
    """The index of one rule: sorted runs of hashes, and the first records of each run date, both by date."""

    rule: str
    hashes: tuple[SortedRun, ...] = ()
    firsts: tuple[SortedRun, ...] = ()

    @property
    def ids(self) -> int:
        return sum(run.ids for run in self.hashes)

    @property
    def bytes(self) -> int:
        """Bytes of hashes, which every run reads."""
        return sum(run.bytes for run in self.hashes)

    def since(self, first_day: int) -> "IdIndex":
        """Without what is older as a whole; a merged run is kept while some of it is young enough."""
        return replace(
            self,
            hashes=tuple(run for run in self.hashes if run.last >= first_day),
            firsts=tuple(run for run in self.firsts if run.last >= first_day),
        )

    def first_records(self, day: int) -> SortedRun | None:
        """The first records of a run date; None if the index has none."""
        return next((run for run in self.firsts if run.first == day), None)


def appended(runs: Sequence[SortedRun], day: int) -> tuple[SortedRun, ...]:
    """The runs with a new one for `day`, merged where `FAN_OUT` are of one level; new ones have no pieces."""
    found = [*runs, SortedRun(first=day, last=day)]
    while len(found) >= FAN_OUT and len({run.level for run in found[-FAN_OUT:]}) == 1:
        merged = found[-FAN_OUT:]
        found[-FAN_OUT:] = [SortedRun(first=merged[0].first, last=merged[-1].last, level=merged[0].level + 1)]
    return tuple(found)


def advanced(runs: Sequence[SortedRun], days: Sequence[tuple[int, bool, int]]) -> tuple[SortedRun, ...]:
    """The runs after some run dates: each with whether it has new ids, and the first day that counts then."""

    def add(found: tuple[SortedRun, ...], each: tuple[int, bool, int]) -> tuple[SortedRun, ...]:
        day, has_ids, first_day = each
        kept = tuple(run for run in found if run.last >= first_day)
        return appended(kept, day) if has_ids else kept

    return reduce(add, days, tuple(runs))


def piece_count(ids: int, file_bytes: int) -> int:
    """Into how many files so many ids are divided: a power of two."""
    most = max(file_bytes // BYTES_PER_ID, 1)
    return 1 << (max(-(-ids // most), 1) - 1).bit_length()


# Files.


def put_hashes(lake: ObjectStore, hashes: Hashes, days: Days) -> IdFile:
    """Stores sorted hashes with their run dates."""
    table = pa.table([hashes, days], schema=HASH_SCHEMA)
    options = {"use_dictionary": ["day"], "compression": "none", "row_group_size": HASH_GROUP}
    return _put(lake, table, ["hash"], options)


def put_firsts(lake: ObjectStore, rows: pa.Table) -> IdFile:
    """Stores first records, which are sorted by hash; only their ids are worth a compression."""
    labels = ["topic", "partition", "producer_id", "producer_epoch", "transactional_id"]
    codecs = {name: "zstd" if name == "id" else "none" for name in FIRST_SCHEMA.names}
    options = {"use_dictionary": labels, "compression": codecs, "row_group_size": FIRST_GROUP}
    table = rows.select(FIRST_SCHEMA.names).cast(FIRST_SCHEMA)
    return _put(lake, table, ["hash", "offset", "timestamp"], options)


def _put(lake: ObjectStore, table: pa.Table, deltas: Iterable[str], options: dict[str, Any]) -> IdFile:
    buffer = pa.BufferOutputStream()
    pq.write_table(
        table.combine_chunks(),  # where chunks end, pages can end, and chunks depend on the number of buckets
        buffer,
        column_encoding=dict.fromkeys(deltas, "DELTA_BINARY_PACKED"),
        write_statistics=["hash"],
        write_page_checksum=True,
        store_schema=False,
        **options,
    )
    data = buffer.getvalue().to_pybytes()
    return IdFile(digest=put_content(lake, data), ids=table.num_rows, bytes=len(data))


def iter_hashes(
    lake: ObjectStore, pieces: Iterable[IdFile], bucket: int, buckets: int
) -> Iterator[tuple[Hashes, Days]]:
    """Hashes of a bucket in the order of the pieces and their run dates, in parts of a row group."""
    first, last = bucket_range(bucket, buckets)
    for piece in pieces:
        key = state_key(piece.digest)
        for part in iter_groups(lake, key, "hash", first, last, columns=HASH_SCHEMA.names):
            hashes, days = (np.asarray(part.column(name)) for name in HASH_SCHEMA.names)
            within = slice(np.searchsorted(hashes, first, "left"), np.searchsorted(hashes, last, "right"))
            yield hashes[within], days[within]


def read_firsts(lake: ObjectStore, run: SortedRun, bucket: int, buckets: int, hashes: Hashes) -> pa.Table:
    """The first records with one of these hashes, which are sorted and of one bucket."""
    found, wanted = [FIRST_SCHEMA.empty_table()], hashes.tolist()

    def allows(low: int, high: int) -> bool:
        return bisect_left(wanted, low) < bisect_right(wanted, high)

    for piece in run.pieces_of(bucket, buckets):
        key = state_key(piece.digest)
        for part in iter_groups_where(lake, key, "hash", allows, columns=FIRST_SCHEMA.names):
            chosen = places_of(hashes, np.asarray(part.column("hash")))
            if chosen.size:
                found.append(pa.table(part.take(chosen)).cast(FIRST_SCHEMA))
    return pa.concat_tables(found)


# The listing, which a run hands to the next one.


def put_indexes(folder: RunFolder, indexes: Iterable[IdIndex]) -> OutputFile:
    """Writes the table of all indexes as an output of `deduplicate`."""
    table = ID_INDEX.cast(pa.Table.from_pylist(rows_of(indexes), schema=ID_INDEX.schema))
    return put_table(folder.lake, folder.key(Step.DEDUPLICATE), ID_INDEX.file, table)


def rows_of(indexes: Iterable[IdIndex]) -> list[dict[str, Any]]:
    """A row for each index, and one for each of its files."""
    return [row for index in indexes for row in _index_rows(index)]


def _index_rows(index: IdIndex) -> Iterator[dict[str, Any]]:
    nothing = SortedRun(first=0, last=0, pieces=(IdFile(digest="", ids=0, bytes=0),))
    parts = {PieceKind.RULE: (nothing,), PieceKind.HASHES: index.hashes, PieceKind.FIRSTS: index.firsts}
    for kind, runs in parts.items():
        for run in runs:
            for number, piece in enumerate(run.pieces):
                yield {
                    "rule": index.rule,
                    "kind": kind.value,
                    "first_date": date_of(run.first),
                    "last_date": date_of(run.last),
                    "level": run.level,
                    "number": number,
                    "digest": piece.digest,
                    "ids": piece.ids,
                    "bytes": piece.bytes,
                }


def indexes_of(rows: Iterable[Mapping[str, Any]]) -> dict[str, IdIndex]:
    """The indexes by rule."""
    found: dict[str, dict[str, list[SortedRun]]] = {}
    for (rule, kind, first, last, level), same in groupby(rows, key=_run_of):
        pieces = tuple(IdFile(digest=row["digest"], ids=row["ids"], bytes=row["bytes"]) for row in same)
        run = SortedRun(first=day_number(first), last=day_number(last), level=level, pieces=pieces)
        found.setdefault(rule, defaultdict(list))[kind].append(run)
    return {
        rule: IdIndex(rule=rule, hashes=tuple(runs[PieceKind.HASHES]), firsts=tuple(runs[PieceKind.FIRSTS]))
        for rule, runs in found.items()
    }


def _run_of(row: Mapping[str, Any]) -> tuple[str, str, date, date, int]:
    return row["rule"], row["kind"], row["first_date"], row["last_date"], row["level"]


def digest_of_indexes(indexes: Iterable[IdIndex]) -> str:
    """The state digest that `deduplicate` reports."""
    return digest_of([[row["rule"], row["kind"], row["number"], row["digest"]] for row in rows_of(indexes)])


def read_index_rows(lake: ObjectStore, run_id: str) -> list[dict[str, Any]]:
    """The files of the indexes that a run ended with; none if it had no step `deduplicate`."""
    key = step_key(run_id, Step.DEDUPLICATE, ID_INDEX.file)
    return read_table(lake, key).to_pylist() if lake.stat(key) is not None else []


def indexes_before(lake: ObjectStore, chain: Chain, state_in: str) -> dict[str, IdIndex]:
    """The indexes of the run that ended in `state_in`, by rule; none before the first run with any."""
    entry = chain.run_with_state(state_in) if state_in != EMPTY_STATE else None
    return indexes_of(read_index_rows(lake, entry.run_id)) if entry is not None else {}
