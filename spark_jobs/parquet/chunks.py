"""A column of one row group in the making: its pages, and its dictionary."""

from itertools import pairwise

import numpy as np

from spark_jobs.kernels.encodings import find_cuts
from spark_jobs.kernels.memory import as_bytes, read_only
from spark_jobs.parquet.dictionary import Dictionary
from spark_jobs.parquet.encoders import Encoder, Indices, PlainBytes, encode_numbers
from spark_jobs.parquet.leaves import Leaf, Physical
from spark_jobs.parquet.pages import Press, Pressed
from spark_jobs.parquet.shreds import Shred, edges
from spark_jobs.parquet.values import ByteValues, Named, Numbers, Values, byte_values

PAGE_BYTES = 2**20
"""Of bytes and text, after which a page ends with its row."""
PAGE_ROWS = 100_000
"""Of numbers: a page costs as much as thousands of them."""


class Chunk:
    """Takes rows of `leaf` and keeps them as pages until the row group ends."""

    def __init__(self, leaf: Leaf, press: Press) -> None:
        self.leaf, self._press = leaf, press
        self._dictionary = Dictionary(leaf.plain)
        self.pages: list[Pressed] = []

    @property
    def size(self) -> int:
        """Bytes of its pages, were they not compressed."""
        return sum(page.size for page, _ in self.pages)

    @property
    def held_bytes(self) -> int:
        """Bytes of its pages as they are."""
        return sum(page.length for page, _ in self.pages)

    def add(self, rows: Shred) -> None:
        """Append rows, one at least, as pages of their own."""
        encoder = self._encoder(rows.values)
        for first, stop in pairwise(_cuts(rows, encoder)):
            self.pages.append(self._press.data_page(self.leaf, rows, encoder, first, stop))

    def dictionary_page(self) -> Pressed | None:
        """Of all entries that pages point to, if there are any."""
        entries = len(self._dictionary.entries)
        return self._press.dictionary_page(self._dictionary.content, entries) if entries else None

    def _encoder(self, values: Values) -> Encoder:
        if isinstance(values, Named):
            indices = self._dictionary.indices(values) if self._may_use_dictionary else None
            if indices is not None:
                return indices
            values = _spelled_out(values, self.leaf)
        return PlainBytes(values) if isinstance(values, ByteValues) else encode_numbers(values.numbers)

    @property
    def _may_use_dictionary(self) -> bool:
        """Until values came without it: Spark reads these wrong if pages that use it stand behind them."""
        return all(page.encoding is Indices.encoding for page, _ in self.pages if page.values)


def _spelled_out(values: Named, leaf: Leaf) -> ByteValues | Numbers:
    """The same without a dictionary, in the types for which kernels are compiled ahead."""
    places = values.places if values.lengths is None else np.repeat(values.places, values.lengths)
    if leaf.physical is not Physical.BYTE_ARRAY:
        return Numbers(read_only(np.array(values.names, dtype=leaf.number_type)[places], leaf.number_type))
    starts = edges(np.array([len(name) for name in values.names], dtype=np.int64))
    data = as_bytes(b"".join(values.names))
    return byte_values(data, starts[places], np.diff(starts)[places])


def _cuts(rows: Shred, encoder: Encoder) -> list[int]:
    """The first row of every page, and the end."""
    if isinstance(encoder, Indices):
        return [0, rows.rows]
    if not isinstance(encoder, PlainBytes):
        return [*range(0, rows.rows, PAGE_ROWS), rows.rows]
    sizes = encoder.values.sizes
    room = np.empty(encoder.most_bytes(0, sizes.size) // PAGE_BYTES + 1, dtype=np.int64)
    found = room[: find_cuts(sizes, PAGE_BYTES, room)]
    if rows.row_values is not None:
        found = np.searchsorted(rows.row_values, found)
    return [*np.unique([0, *found.tolist(), rows.rows]).tolist()]
