"""Long listings through the compiled writer."""

from collections.abc import Sequence

import numpy as np

from spark_jobs.inspect.listing import Column
from spark_jobs.kernels.row_text import Layout, pack_texts, write_rows


def format_part(columns: Sequence[Column], after: str) -> bytes:
    """The lines of these rows, as `listing.format_part_plainly` writes them."""
    return write_rows(np.stack([column.values for column in columns]), _layout(columns, after)).tobytes()


def _layout(columns: Sequence[Column], after: str) -> Layout:
    labels = [(column.nothing, *column.labels) for column in columns]
    return Layout(
        kinds=np.array([column.kind for column in columns], dtype=np.int64),
        widths=np.array([column.width for column in columns], dtype=np.int64),
        nullable=np.array([column.null is not None for column in columns]),
        nulls=np.array([column.null or 0 for column in columns], dtype=np.int64),
        before=pack_texts([*(column.before.encode() for column in columns), after.encode()]),
        labels=pack_texts([text.encode() for group in labels for text in group]),
        first_labels=np.cumsum([0, *(len(group) for group in labels[:-1])], dtype=np.int64),
    )
