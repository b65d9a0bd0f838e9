"""What a file says of itself at its end: the schema, where columns and pages stand, and their bounds."""

from collections import Counter
from dataclasses import dataclass
from itertools import accumulate, pairwise

import pyarrow as pa

from spark_jobs.parquet.encoders import Bounds, Encoding
from spark_jobs.parquet.leaves import Leaf, schema_elements, schema_leaves
from spark_jobs.parquet.pages import DATA_PAGE, DICTIONARY_PAGE, Page
from spark_jobs.parquet.thrift import (
    Value,
    binary,
    flag,
    flags,
    i16,
    i32,
    i64,
    items,
    no_structs,
    struct,
    text,
)

MAGIC = b"PAR1"
_CREATED_BY = "onceover version 1.0.0 (build 0)"
"""In the form by which readers tell whether a writer's bounds can be relied on."""
_VERSION, _ZSTD = 2, 6
_UNORDERED, _ASCENDING, _DESCENDING = range(3)


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenChunk:
    """A column of a row group that begins at byte `position` of the file."""

    leaf: Leaf
    position: int
    pages: tuple[Page, ...]
    dictionary: Page | None

    @property
    def all_pages(self) -> tuple[Page, ...]:
        """The dictionary's first."""
        return self.pages if self.dictionary is None else (self.dictionary, *self.pages)

    @property
    def size(self) -> int:
        """Bytes in the file."""
        return sum(page.length for page in self.all_pages)

    @property
    def whole_size(self) -> int:
        """Bytes, were they not compressed."""
        return sum(page.size for page in self.all_pages)

    @property
    def first_page(self) -> int:
        """Where the first page with rows begins."""
        return self.position + (0 if self.dictionary is None else self.dictionary.length)


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenGroup:
    """A row group."""

    rows: int
    chunks: tuple[WrittenChunk, ...]


def end_of_file(schema: pa.Schema, groups: list[WrittenGroup], position: int) -> bytes:
    """Everything behind the last row group, which ends at byte `position`."""
    parts, chunks = [], []
    for chunk in (chunk for group in groups for chunk in group.chunks):
        found = [_column_index(chunk), _offset_index(chunk)]
        places = list(accumulate(map(len, found), initial=position))
        chunks.append(_column_chunk(chunk, list(pairwise(places))))
        parts += found
        position = places[-1]
    footer = _file_metadata(schema, groups, chunks).data
    return b"".join((*parts, footer, len(footer).to_bytes(4, "little"), MAGIC))


def _file_metadata(schema: pa.Schema, groups: list[WrittenGroup], chunks: list[Value]) -> Value:
    columns, described = iter(chunks), []
    for ordinal, group in enumerate(groups):
        described.append(
            struct(
                {
                    1: items([next(columns) for _ in group.chunks]),
                    2: i64(sum(chunk.whole_size for chunk in group.chunks)),
                    3: i64(group.rows),
                    5: i64(group.chunks[0].position),
                    6: i64(sum(chunk.size for chunk in group.chunks)),
                    7: i16(ordinal) if ordinal < 2**15 else None,
                }
            )
        )
    by_type = struct({1: struct({})})
    return struct(
        {
            1: i32(_VERSION),
            2: schema_elements(schema),
            3: i64(sum(group.rows for group in groups)),
            4: items(described) if described else no_structs(),
            6: text(_CREATED_BY),
            7: items([by_type] * len(schema_leaves(schema))),
        }
    )


def _column_chunk(chunk: WrittenChunk, places: list[tuple[int, int]]) -> Value:
    (column_start, column_end), (offset_start, offset_end) = places
    has_column_index = column_start < column_end
    return struct(
        {
            2: i64(0),
            3: _column_metadata(chunk),
            4: i64(offset_start),
            5: i32(offset_end - offset_start),
            6: i64(column_start) if has_column_index else None,
            7: i32(column_end - column_start) if has_column_index else None,
        }
    )


def _column_metadata(chunk: WrittenChunk) -> Value:
    used = Counter(page.encoding for page in chunk.pages)
    encodings = dict.fromkeys((Encoding.RLE, *used, *([Encoding.PLAIN] if chunk.dictionary else [])))
    counted = [_counted(DATA_PAGE, encoding, pages) for encoding, pages in used.items()]
    if chunk.dictionary is not None:
        counted.insert(0, _counted(DICTIONARY_PAGE, Encoding.PLAIN, 1))
    return struct(
        {
            1: i32(chunk.leaf.physical),
            2: items([i32(encoding) for encoding in encodings]),
            3: items([text(name) for name in chunk.leaf.path]),
            4: i32(_ZSTD),
            5: i64(sum(page.slots for page in chunk.pages)),
            6: i64(chunk.whole_size),
            7: i64(chunk.size),
            9: i64(chunk.first_page),
            11: None if chunk.dictionary is None else i64(chunk.position),
            12: _statistics(chunk),
            13: items(counted),
        }
    )


def _counted(kind: int, encoding: Encoding, pages: int) -> Value:
    return struct({1: i32(kind), 2: i32(encoding), 3: i32(pages)})


def _statistics(chunk: WrittenChunk) -> Value:
    """Of all pages; without bounds if those of one are not known."""
    found = [page.bounds for page in chunk.pages if page.values]
    known = [bounds for bounds in found if bounds is not None]
    nulls = i64(sum(page.slots - page.values for page in chunk.pages))
    if not known or len(known) < len(found):
        return struct({3: nulls})
    low, high = min(bounds.low for bounds in known), max(bounds.high for bounds in known)
    low_bytes, high_bytes = (chunk.leaf.bound(value) for value in (low, high))
    return struct({3: nulls, 5: binary(high_bytes), 6: binary(low_bytes), 7: flag(True), 8: flag(True)})


def _column_index(chunk: WrittenChunk) -> bytes:
    """The bounds of each page; nothing if those of one are not known."""
    if any(page.values and page.bounds is None for page in chunk.pages):
        return b""
    bounds = [page.bounds for page in chunk.pages]
    return struct(
        {
            1: flags([page.values == 0 for page in chunk.pages]),
            2: items([binary(b"" if each is None else chunk.leaf.bound(each.low)) for each in bounds]),
            3: items([binary(b"" if each is None else chunk.leaf.bound(each.high)) for each in bounds]),
            4: i32(_order([each for each in bounds if each is not None])),
            5: items([i64(page.slots - page.values) for page in chunk.pages]),
        }
    ).data


def _order(bounds: list[Bounds]) -> int:
    pairs = list(pairwise(bounds))
    if all(one.low <= other.low and one.high <= other.high for one, other in pairs):
        return _ASCENDING
    if all(one.low >= other.low and one.high >= other.high for one, other in pairs):
        return _DESCENDING
    return _UNORDERED


def _offset_index(chunk: WrittenChunk) -> bytes:
    """Where each page begins, and with which row of its group."""
    places = accumulate((page.length for page in chunk.pages), initial=chunk.first_page)
    rows = accumulate((page.rows for page in chunk.pages), initial=0)
    located = [
        struct({1: i64(place), 2: i32(page.length), 3: i64(row)})
        for page, place, row in zip(chunk.pages, places, rows, strict=False)
    ]
    return struct({1: items(located)}).data
