"""Copies of a log merged into one: cases by hand, and the kernel against its pure twin."""

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.kafka.formats.checkpoints import EpochEntry
from spark_jobs.kafka.formats.record_batch import RecordBatchHeader
from spark_jobs.kafka.log.replica_copies import Gap, MergedCopies, merge_copies
from spark_jobs.kafka.producers.verdict import VERDICTS, Verdict
from spark_jobs.kernels.copies import CopyColumns, CopyMerger
from tests.cases.batch_rows import header

TYPES = (np.int64, np.int32, np.int32, np.int64, np.int16, np.int32, np.int64, np.uint32)
ACCEPTED, OVERLAP, DIVERGENT = Verdict.ACCEPTED, Verdict.OVERLAP, Verdict.DIVERGENT


def batch(at: int, count: int = 1, *, epoch: int = 0, crc: int = 0, pid: int = -1) -> RecordBatchHeader:
    return replace(header(at=at, count=count, pid=pid), partition_leader_epoch=epoch, crc=crc)


def epoch(number: int, start: int) -> EpochEntry:
    return EpochEntry(epoch=number, start_offset=start)


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiesCase:
    title: str
    batches: tuple[RecordBatchHeader, ...]
    verdicts: tuple[Verdict, ...]
    gaps: tuple[tuple[int, int], ...] = ()
    leader_epochs: tuple[EpochEntry, ...] = ()
    taken_epochs: tuple[EpochEntry, ...] = ()
    taken_offset: int = 0


CASES = (
    CopiesCase(title="one log", batches=(batch(0, 3), batch(3)), verdicts=(ACCEPTED, ACCEPTED)),
    CopiesCase(
        title="the same batches twice",
        batches=(batch(0, 3), batch(0, 3), batch(3), batch(3)),
        verdicts=(ACCEPTED, OVERLAP, ACCEPTED, OVERLAP),
    ),
    CopiesCase(
        title="other bytes at the same offsets, of the same leader",
        batches=(batch(0, 3, crc=1), batch(0, 3, crc=2)),
        verdicts=(ACCEPTED, DIVERGENT),
    ),
    CopiesCase(
        title="a batch that one replica has compacted",
        batches=(batch(0, 3, pid=1, crc=1), batch(0, 3, pid=1, crc=2)),
        verdicts=(ACCEPTED, OVERLAP),
    ),
    CopiesCase(
        title="the tail of an old leader behind the start of a newer one",
        batches=(batch(0, 5, epoch=3), batch(5, 5, epoch=5), batch(5, 3, epoch=3), batch(8, 9, epoch=3)),
        leader_epochs=(epoch(3, 0), epoch(5, 5)),
        verdicts=(ACCEPTED, ACCEPTED, DIVERGENT, DIVERGENT),
    ),
    CopiesCase(
        title="an old leader's tail though the newer one has written nothing yet",
        batches=(batch(0, 5, epoch=3), batch(5, 5, epoch=3)),
        leader_epochs=(epoch(3, 0), epoch(5, 5)),
        verdicts=(ACCEPTED, DIVERGENT),
    ),
    CopiesCase(
        title="a batch that reaches over the start of a newer leader goes whole",
        batches=(batch(0, 5, epoch=3), batch(3, 2, epoch=5)),
        leader_epochs=(epoch(3, 0), epoch(5, 3)),
        verdicts=(DIVERGENT, ACCEPTED),
        gaps=((0, 2),),
    ),
    CopiesCase(
        title="a hole that no copy fills",
        batches=(batch(0), batch(5), batch(5)),
        verdicts=(ACCEPTED, ACCEPTED, OVERLAP),
        gaps=((1, 4),),
    ),
    CopiesCase(
        title="what earlier runs have taken",
        batches=(batch(0, 5, epoch=1), batch(5, 5, epoch=1), batch(10, epoch=1)),
        taken_epochs=(epoch(1, 0),),
        taken_offset=10,
        verdicts=(OVERLAP, OVERLAP, ACCEPTED),
    ),
    CopiesCase(
        title="what earlier runs have taken, rewritten by a newer leader",
        batches=(batch(0, 5, epoch=1), batch(5, 5, epoch=2), batch(10, epoch=2)),
        taken_epochs=(epoch(1, 0),),
        taken_offset=10,
        verdicts=(OVERLAP, DIVERGENT, ACCEPTED),
    ),
    CopiesCase(
        title="batches of before leader epochs",
        batches=(batch(0, epoch=-1), batch(0, epoch=-1), batch(1, epoch=-1)),
        leader_epochs=(epoch(5, 0),),
        verdicts=(ACCEPTED, OVERLAP, ACCEPTED),
    ),
)


def merge_with_kernel(batches: list[RecordBatchHeader], cuts: list[int], merger: CopyMerger) -> MergedCopies:
    verdicts: list[Verdict] = []
    gaps: list[Gap] = []
    for start, end in pairwise([0, *sorted(min(cut, len(batches)) for cut in cuts), len(batches)]):
        part = batches[start:end]
        columns = CopyColumns._make(
            np.array([getattr(each, name) for each in part], dtype=kind)
            for name, kind in zip(CopyColumns._fields, TYPES, strict=True)
        )
        codes, found = merger.merge(columns)
        verdicts += [VERDICTS[code] for code in codes]
        gaps += [
            Gap(place=start + int(place), first_offset=int(first), last_offset=int(last))
            for place, first, last in found
        ]
    return MergedCopies(verdicts=tuple(verdicts), gaps=tuple(gaps), end_offset=merger.end_offset)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
def test_case(case: CopiesCase) -> None:
    given_epochs = {
        "leader_epochs": case.leader_epochs,
        "taken_epochs": case.taken_epochs,
    }
    merged = merge_copies(case.batches, **given_epochs, taken_offset=case.taken_offset)
    assert merged.verdicts == case.verdicts
    assert tuple((gap.first_offset, gap.last_offset) for gap in merged.gaps) == case.gaps
    merger = CopyMerger(**given_epochs, taken_offset=case.taken_offset)
    assert merge_with_kernel(list(case.batches), [1], merger) == merged


BATCHES = st.builds(
    batch,
    st.integers(0, 12),
    st.integers(1, 4),
    epoch=st.integers(-1, 3),
    crc=st.integers(0, 1),
    pid=st.integers(-1, 1),
)
EPOCHS = st.lists(st.integers(0, 12), max_size=4).map(
    lambda starts: tuple(epoch(number, start) for number, start in enumerate(sorted(starts)))
)


@given(
    st.lists(BATCHES, max_size=12),
    EPOCHS,
    EPOCHS,
    st.integers(0, 8),
    st.lists(st.integers(0, 12), max_size=2),
)
def test_the_kernel_merges_as_its_pure_twin(
    batches: list[RecordBatchHeader],
    known: tuple[EpochEntry, ...],
    taken: tuple[EpochEntry, ...],
    taken_offset: int,
    cuts: list[int],
) -> None:
    ordered = sorted(batches, key=lambda each: (each.base_offset, -each.partition_leader_epoch))
    expected = merge_copies(ordered, leader_epochs=known, taken_epochs=taken, taken_offset=taken_offset)
    merger = CopyMerger(leader_epochs=known, taken_epochs=taken, taken_offset=taken_offset)
    assert merge_with_kernel(ordered, cuts, merger) == expected
