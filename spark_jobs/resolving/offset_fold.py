"""Consumer offsets of one `__consumer_offsets` partition, folded on by a night (facts §5)."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.protocol.errors import CorruptCoordinatorRecord
from spark_jobs.protocol.group_offsets import GroupOffsets, OffsetCommit, OffsetsMarker, fold, read_events
from spark_jobs.protocol.verdict import Verdict
from spark_jobs.resolving.log_records import COLUMNS, LogReader, LogRecords
from spark_jobs.resolving.offset_file import read_offsets
from spark_jobs.storage.layout import state_key
from spark_jobs.storage.object_store import ObjectStore
from spark_jobs.storage.parquet_file import iter_rows
from spark_jobs.storage.state_file import get_content

MOST_PROBLEMS = 5
Event = OffsetCommit | OffsetsMarker


@dataclass(frozen=True, slots=True, kw_only=True)
class FoldedOffsets:
    """Offsets after the night, and some of what could not be read."""

    offsets: GroupOffsets
    problems: tuple[str, ...]


def get_offsets(lake: ObjectStore, digest: str) -> GroupOffsets:
    """The offsets of that name; none for no name."""
    if not digest:
        return GroupOffsets()
    return read_offsets(get_content(lake, digest), source=lake.url_of(state_key(digest)))


def fold_offsets(
    before: GroupOffsets, batches: Iterable[pa.RecordBatch], reader: LogReader, ends: Iterable[OffsetsMarker]
) -> FoldedOffsets:
    """Folds accepted batches in offset order, then the `ends` of transactions that have no marker here."""
    problems: list[str] = []

    def events() -> Iterator[Event]:
        for rows in batches:
            for piece in reader.read(rows):
                yield from _events(piece, problems)
        yield from ends

    return FoldedOffsets(offsets=fold(events(), before=before), problems=tuple(problems[:MOST_PROBLEMS]))


def accepted_batches(lake: ObjectStore, key: str) -> Iterator[pa.RecordBatch]:
    """The accepted rows of a file of `batches`."""
    for rows in iter_rows(lake, key, columns=[*COLUMNS, "verdict"]):
        yield rows.filter(pc.equal(rows.column("verdict"), pa.scalar(Verdict.ACCEPTED.value)))


def _events(piece: LogRecords, problems: list[str]) -> Iterator[Event]:
    """What the records mean, one by one: an unreadable one is passed over."""
    if piece.problem:
        problems.append(piece.problem)
    for record in piece.records:
        try:
            yield from read_events(piece.header, (record,))
        except CorruptCoordinatorRecord as error:
            problems.append(str(error))
