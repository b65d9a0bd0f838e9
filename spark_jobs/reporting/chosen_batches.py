"""Which batches of a run the explorer holds: all of a small run, a selection of a large one."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.reporting.batch_counts import PLAIN
from spark_jobs.storage.object_store import ObjectStore
from spark_jobs.storage.parquet_file import iter_row_range, iter_rows

MOST_TROUBLED = 10_000
"""Batches that were not simply taken, per run."""
MOST_PLAIN = 5_000
"""Accepted batches and overlaps of copies, per run."""
FAR_APART = 1 << 16
"""Rows farther apart than this are read separately."""

Places = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """How many batches of one partition to hold."""

    troubled: int
    plain: int

    @property
    def total(self) -> int:
        return self.troubled + self.plain


def choose(counts: Sequence[Mapping[str, int]]) -> list[Choice]:
    """A fair share for each partition: what the small ones leave, the large ones get."""
    plain = [sum(n for verdict, n in each.items() if verdict in PLAIN) for each in counts]
    troubled = [sum(each.values()) - n for each, n in zip(counts, plain, strict=True)]
    shares = zip(fair_shares(troubled, MOST_TROUBLED), fair_shares(plain, MOST_PLAIN), strict=True)
    return [Choice(troubled=bad, plain=good) for bad, good in shares]


def fair_shares(wanted: Sequence[int], most: int) -> list[int]:
    """Divides `most`: none gets more than it wants or less than an equal part of the rest."""
    shares = [0] * len(wanted)
    for left, place in enumerate(sorted(range(len(wanted)), key=lambda each: wanted[each])):
        share = most // (len(wanted) - left)
        shares[place] = min(wanted[place], share)
        most -= shares[place]
    return shares


def chosen_rows(lake: ObjectStore, key: str, choice: Choice, rows: int) -> Iterator[dict[str, Any]]:
    """The first of the troubled and the newest of the plain of all `rows`, in the order of the file."""
    if choice.total == rows:
        for part in iter_rows(lake, key) if rows else ():
            yield from part.to_pylist()
    elif choice.total:
        yield from _rows_at(lake, key, _places(lake, key, choice))


def _rows_at(lake: ObjectStore, key: str, places: Places) -> Iterator[dict[str, Any]]:
    for span in np.split(places, np.flatnonzero(np.diff(places) > FAR_APART) + 1):
        start = int(span[0])
        for rows in iter_row_range(lake, key, start, int(span[-1]) + 1):
            inside = span[(span >= start) & (span < start + rows.num_rows)] - start
            start += rows.num_rows
            yield from rows.take(pa.array(inside, pa.int64())).to_pylist()


def _places(lake: ObjectStore, key: str, choice: Choice) -> Places:
    is_plain = np.concatenate(
        [np.empty(0, dtype=bool), *(_is_plain(rows) for rows in iter_rows(lake, key, columns=["verdict"]))]
    )
    troubled, plain = np.flatnonzero(~is_plain), np.flatnonzero(is_plain)
    return np.sort(np.concatenate([troubled[: choice.troubled], plain[len(plain) - choice.plain :]]))


def _is_plain(rows: pa.RecordBatch) -> npt.NDArray[np.bool_]:
    found = pc.is_in(rows.column("verdict"), value_set=pa.array(sorted(PLAIN)))
    plain: npt.NDArray[np.bool_] = found.to_numpy(zero_copy_only=False)
    return plain
