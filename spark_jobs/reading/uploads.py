"""Uploads to tiered storage as one log: which of them are read, and what they lack.

A retried upload has the offsets of an earlier one, and uploads of two leaders may overlap. Brokers upload
closed segments below the last stable offset, so a tier ends before its log does.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from spark_jobs.reading.remarks import Remark, error, plural, warning
from spark_jobs.reading.segment_scan import ScannedSegment
from spark_jobs.reading.visibility import last_offsets

if TYPE_CHECKING:
    from spark_jobs.reading.partition_scan import ScannedPartition


def end_of(segment: ScannedSegment) -> int:
    """The offset after the last batch."""
    return int(last_offsets(segment.batches)[-1]) + 1 if segment.batches.rows else segment.base_offset


def not_covered(
    segments: Iterable[ScannedSegment],
) -> tuple[tuple[ScannedSegment, ...], tuple[ScannedSegment, ...]]:
    """The segments by base offset without those whose offsets others before them have, and these."""
    kept: list[ScannedSegment] = []
    covered: list[ScannedSegment] = []
    ordered = sorted(segments, key=lambda each: (each.base_offset, -end_of(each), each.file.key))
    for segment in ordered:
        is_covered = bool(kept) and end_of(segment) <= max(map(end_of, kept[-1:]))
        (covered if is_covered else kept).append(segment)
    return tuple(kept), tuple(covered)


def tier_errors(scanned: "ScannedPartition") -> Iterator[Remark]:
    """Why records of a tier could be wrong or missing: gaps between uploads, and uploads that differ."""
    for before, after in pairwise(scanned.segments):
        if end_of(before) < after.base_offset:
            yield error(
                f"offsets {end_of(before)} to {after.base_offset - 1} are in no whole upload: records are "
                f"missing, and markers may be{_incomplete(scanned)}"
            )
    differing = _first_difference((*scanned.segments, *scanned.covered))
    if differing is not None:
        yield error(
            f"uploads have different batches at offset {differing}, as after an unclean leader election: a "
            "run of a source of kind tiered decides by leader epochs"
        )


def tier_end(scanned: "ScannedPartition") -> Remark:
    """Where the tier ends, and what is undecided there."""
    seen = scanned.visibility
    text = f"the tier ends at offset {seen.log_end_offset}; later records are in the log of the broker"
    if seen.open_txns:
        text += (
            f", and so are the markers of {plural(len(seen.open_txns), 'open transaction')}: read_committed "
            f"ends at offset {seen.last_stable_offset}"
        )
    return warning(f"{text}{_incomplete(scanned)}")


def _incomplete(scanned: "ScannedPartition") -> str:
    names = scanned.files.incomplete
    if not names:
        return ""
    return f"; {plural(len(names), 'incomplete upload')} left out, the first is {names[0]}"


def _first_difference(segments: Sequence[ScannedSegment]) -> int | None:
    """The first offset at which segments that overlap do not have the same batch."""
    ordered = sorted(segments, key=lambda each: each.base_offset)
    if all(end_of(before) <= after.base_offset for before, after in pairwise(ordered)):
        return None
    columns = [
        np.stack([batches.base_offset, last_offsets(batches), batches.crc.astype(np.int64)], axis=1)
        for batches in (segment.batches for segment in ordered)
    ]
    rows = np.unique(np.concatenate(columns), axis=0)
    wrong = np.flatnonzero(rows[1:, 0] <= rows[:-1, 1])
    return int(rows[1:, 0][wrong[0]]) if wrong.size else None
