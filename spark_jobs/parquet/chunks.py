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
_REPEATED = 8
"""Times that numbers come on average, to be worth a dictionary."""


class Chunk:
    """Takes rows of `leaf` and keeps them as pages until the row group ends."""

    def __init__(self, leaf: Leaf, press: Press) -> None:
        self.leaf, self._press = leaf, press
        self._dictionary = Dictionary(leaf.plain)
        self._may_use_dictionary = True
        self._pages: list[Pressed] = []
        self.size = self.held_bytes = 0
        """Bytes of its pages, were they not compressed, and as they are."""

    def add(self, rows: Shred) -> None:
        """Append rows, one at least, as pages of their own."""
        encoder = self._encoder(rows.values)
        for first, stop in pairwise(_cuts(rows, encoder)):
            self._keep(self._press.data_page(self.leaf, rows, encoder, first, stop))

    def all_pages(self) -> tuple[Pressed | None, list[Pressed]]:
        """The dictionary's, if there is one, and the others."""
        entries = len(self._dictionary.entries)
        dictionary = self._press.dictionary_page(self._dictionary.content, entries) if entries else None
        return dictionary, self._pages

    def _keep(self, pressed: Pressed) -> None:
        page = pressed.page
        self._pages.append(pressed)
        self.size += page.size
        self.held_bytes += page.length
        # Spark reads values wrong that use a dictionary where values without it stand before them.
        self._may_use_dictionary &= page.encoding is Indices.encoding or not page.values

    def _encoder(self, values: Values) -> Encoder:
        if isinstance(values, Numbers) and self._dictionary.entries and self._may_use_dictionary:
            values = _named_if_few(values)
        if isinstance(values, Named):
            indices = self._dictionary.indices(values) if self._may_use_dictionary else None
            if indices is not None:
                return indices
            values = _spelled_out(values, self.leaf)
        return PlainBytes(values) if isinstance(values, ByteValues) else encode_numbers(values.numbers)


def _named_if_few(values: Numbers) -> Named | Numbers:
    """Whole numbers that repeat by name: a column that began with a dictionary goes on with it."""
    if values.numbers.dtype.kind != "i":
        return values
    names, places = np.unique(values.numbers, return_inverse=True)
    is_few = names.size * _REPEATED <= values.numbers.size
    return Named(names.tolist(), places.astype(np.int32)) if is_few else values


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
    return sorted({0, *found.tolist(), rows.rows})
