"""What keeps a log from being read whole: damage is an error, a torn tail a warning."""

import numpy as np
import numpy.typing as npt

from spark_jobs.kafka.errors import BadCrc, CorruptData, MisplacedBatch, TornBatch, ZeroFilledTail
from spark_jobs.kafka.formats.log_files import parse_file_name
from spark_jobs.kafka.formats.record_batch import MAGIC_OFFSET, MAGIC_V2
from spark_jobs.kafka.log.segment import scan
from spark_jobs.kernels.columns import UNREADABLE_CONTROL_TYPE
from spark_jobs.reading.errors import NotKafka, TierEnds, TornTail, Undecided, warn_caller
from spark_jobs.reading.isolation import Isolation
from spark_jobs.reading.partition_scan import ScannedPartition
from spark_jobs.reading.segment_scan import ScannedSegment
from spark_jobs.reading.uploads import tier_end, tier_errors
from spark_jobs.reading.visibility import last_offsets

_SEARCHED_BYTES = 64 * 2**20
"""How far behind a torn batch a whole one is searched for."""


def check_partition(
    scanned: ScannedPartition, isolation: Isolation, concerned: npt.NDArray[np.bool_]
) -> None:
    """Raises if records could be wrong or missing; warns of a torn tail, which no consumer ever got.

    `concerned` are the batches in the range that is read. For read_committed every batch counts: a damaged
    one anywhere may have been a marker.
    """
    _check_any_batch(scanned)
    _check_ends(scanned)
    rows = np.full(concerned.size, True) if isolation is Isolation.READ_COMMITTED else concerned
    _check_batches(scanned, rows)
    if isolation is Isolation.READ_COMMITTED:
        _check_decided(scanned)
    if scanned.files.is_tier:
        _check_uploads(scanned, isolation)


def _check_uploads(scanned: ScannedPartition, isolation: Isolation) -> None:
    """Raises where a marker may be missing, warns of missing records, and says where the tier ends."""
    for remark in tier_errors(scanned):
        if isolation is Isolation.READ_COMMITTED:
            raise Undecided(f"{scanned.name}: {remark.text}; or read with isolation 'read_uncommitted'")
        warn_caller(TierEnds(f"{scanned.name}: {remark.text}"))
    if not scanned.files.is_segment:
        warn_caller(TierEnds(f"{scanned.name}: {tier_end(scanned).text}"))


def _check_any_batch(scanned: ScannedPartition) -> None:
    """Refuses bytes without a single batch, unless a broker may have left them behind."""
    for segment in () if scanned.batches.rows else scanned.segments:
        if segment.problem is not None and not _may_be_unfinished(segment):
            raise NotKafka(f"{segment.file.url}: not a Kafka log: it does not begin with a record batch")


def _may_be_unfinished(segment: ScannedSegment) -> bool:
    if parse_file_name(segment.file.key.rpartition("/")[2]) is None:
        return False
    if isinstance(segment.problem, TornBatch) and segment.size > MAGIC_OFFSET:
        with segment.file.viewed(MAGIC_OFFSET, MAGIC_OFFSET + 1) as magic:
            return magic[0] <= MAGIC_V2
    return isinstance(segment.problem, TornBatch | ZeroFilledTail)


def _check_ends(scanned: ScannedPartition) -> None:
    following = (*(segment.base_offset for segment in scanned.segments[1:]), None)
    for segment, next_base in zip(scanned.segments, following, strict=True):
        problem = segment.problem
        if problem is None:
            continue
        is_unfinished = isinstance(problem, TornBatch | ZeroFilledTail)
        may_be = is_unfinished and not scanned.files.is_tier  # a broker uploads whole segments
        if not may_be or not _is_complete(segment, next_base) or _has_batch_behind(segment):
            raise problem
        left = segment.size - segment.scanned_bytes
        reason = f"{problem.problem}: expected {problem.expected}, found {problem.found}"
        warn_caller(
            TornTail(f"{segment.file.url}: the last {left} bytes are no whole batch, left out ({reason})")
        )


def _is_complete(segment: ScannedSegment, next_base: int | None) -> bool:
    """Whether no record can be missing between this segment and the next."""
    if next_base is None:
        return True
    batches = segment.batches
    return (int(last_offsets(batches)[-1]) + 1 if batches.rows else segment.base_offset) == next_base


def _has_batch_behind(segment: ScannedSegment) -> bool:
    """Whether a whole batch follows: then the length of one before it is damaged, and the log goes on."""
    start = segment.scanned_bytes + 1
    if isinstance(segment.problem, ZeroFilledTail):
        return False
    with segment.file.viewed(start, min(segment.size, start + _SEARCHED_BYTES)) as data:
        view = np.frombuffer(data, dtype=np.uint8)
        return any(_is_batch(data, int(position)) for position in _candidates(view))


def _candidates(view: npt.NDArray[np.uint8]) -> npt.NDArray[np.int64]:
    """Positions whose bytes could begin a v2 batch: a small offset and length, magic 2, usual attributes."""
    size = max(view.size - 61, 0)
    could = (view[16 : 16 + size] == 2) & (view[:size] == 0) & (view[1 : 1 + size] == 0)
    could &= (view[8 : 8 + size] == 0) & (view[21 : 21 + size] == 0) & (view[22 : 22 + size] < 128)
    return np.flatnonzero(could)


def _is_batch(data: bytes | memoryview, position: int) -> bool:
    try:
        return next(scan(data, start=position), None) is not None
    except CorruptData:
        return False


def _check_batches(scanned: ScannedPartition, concerned: npt.NDArray[np.bool_]) -> None:
    batches = scanned.batches
    for row in np.flatnonzero(~batches.crc_ok & concerned)[:1]:
        raise _bad_crc(scanned, int(row))
    backward = np.flatnonzero((batches.base_offset[1:] <= last_offsets(batches)[:-1]) & concerned[1:])
    for row in backward[:1] + 1:
        raise MisplacedBatch(
            source=scanned.segments[scanned.segment_of[row]].file.url,
            position=int(batches.position[row]),
            expected=f"an offset above {last_offsets(batches)[row - 1]}",
            found=int(batches.base_offset[row]),
        )


def _bad_crc(scanned: ScannedPartition, row: int) -> CorruptData:
    """The error of the plain scan at the batch."""
    file = scanned.segments[scanned.segment_of[row]].file
    position, size = int(scanned.batches.position[row]), int(scanned.batches.size[row])
    with file.viewed(position, position + size) as data:
        try:
            next(scan(bytes(data)))
        except CorruptData as error:
            return type(error)(
                source=file.url,
                position=position + error.position,
                expected=error.expected,
                found=error.found,
            )
    return BadCrc(source=file.url, position=position, expected="the same bytes again", found="others")


def _check_decided(scanned: ScannedPartition) -> None:
    batches = scanned.batches
    for row in np.flatnonzero(batches.control_type == UNREADABLE_CONTROL_TYPE)[:1]:
        raise Undecided(
            f"{scanned.name}: the control batch at offset {batches.base_offset[row]} has no readable control "
            "record, so its transaction is undecided; read with isolation 'read_uncommitted'"
        )
    if scanned.files.is_segment and scanned.visibility.open_txns:
        oldest = scanned.visibility.open_txns[0]
        raise Undecided(
            f"{scanned.name}: the marker of the transaction of producer {oldest.producer_id} at offset "
            f"{oldest.first_offset} is not in this segment; read the partition's directory, or with "
            "isolation 'read_uncommitted'"
        )
