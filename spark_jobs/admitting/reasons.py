"""The verdicts on a chunk's rows as sentences, a column at a time."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.admitting.judging import Judged
from spark_jobs.protocol.errors import KafkaError
from spark_jobs.protocol.record_batch import CODEC_MASK, CONTROL_FLAG, MAGIC_V2, NO_PRODUCER_ID, Codec
from spark_jobs.protocol.verdict import VERDICTS, Verdict
from spark_jobs.storage.index_rows import values

ASTRAY = "critical: a plain batch inside its producer's open transaction; no broker could load this log again"

_RULED = (
    "attributes",
    "magic",
    "base_offset",
    "record_count",
    "last_offset_delta",
    "base_sequence",
    "producer_id",
    "records_without_key",
)
"""What Kafka has rules for: fields of a header, and keys."""

Places = npt.NDArray[np.int64]
Sentence = Callable[[Judged, Places], pa.StringArray]


def reasons(judged: Judged) -> pa.StringArray:
    """A sentence for every row that was not simply taken, null for the others."""
    verdict = judged.decisions.verdict
    parts = _parts(judged, verdict)
    if not parts:
        return pa.nulls(len(verdict), pa.string())
    index = np.zeros(len(verdict), dtype=np.int32)
    texts: list[pa.StringArray] = [pa.nulls(1, pa.string())]
    for places, text in parts:
        index[places] = np.arange(len(places)) + sum(map(len, texts))
        texts.append(text)
    sentences: pa.StringArray = pa.concat_arrays(texts).take(pa.array(index, pa.int32()))
    return sentences


def _parts(judged: Judged, verdict: npt.NDArray[np.int8]) -> list[tuple[Places, pa.StringArray]]:
    found = [
        (np.flatnonzero(verdict == VERDICTS.index(each)), sentence) for each, sentence in SENTENCES.items()
    ]
    parts = [(places, sentence(judged, places)) for places, sentence in found if len(places)]
    astray = np.flatnonzero(judged.astray)
    return [*parts, (astray, pa.array([ASTRAY] * len(astray), pa.string()))] if len(astray) else parts


def _text(*pieces: str | npt.NDArray[np.generic]) -> pa.StringArray:
    """Words and columns of numbers, joined row by row."""
    columns: list[Any] = [
        piece if isinstance(piece, str) else pa.array(piece).cast(pa.string()) for piece in pieces
    ]
    joined: pa.StringArray = pc.binary_join_element_wise(*columns, "")
    return joined


def _column(judged: Judged, name: str, places: Places) -> npt.NDArray[np.generic]:
    return values(judged.rows, name)[places]


def _duplicate(judged: Judged, places: Places) -> pa.StringArray:
    first = _column(judged, "base_sequence", places)
    epoch, offset = _column(judged, "producer_epoch", places), judged.decisions.base_offset[places]
    return _text("the batch at sequence ", first, " of epoch ", epoch, " is at offset ", offset, " already")


def _stale(judged: Judged, places: Places) -> pa.StringArray:
    first, expected = _column(judged, "base_sequence", places), judged.decisions.expected_sequence[places]
    return _text(
        "sequence ", first, " was taken, but not by one of the last five batches; ", expected, " is next"
    )


def _out_of_order(judged: Judged, places: Places) -> pa.StringArray:
    first, expected = _column(judged, "base_sequence", places), judged.decisions.expected_sequence[places]
    epoch = _column(judged, "producer_epoch", places)
    return _text("expected sequence ", expected, " of epoch ", epoch, ", found ", first)


def _parked(judged: Judged, places: Places) -> pa.StringArray:
    first, expected = _column(judged, "base_sequence", places), judged.decisions.expected_sequence[places]
    epoch = _column(judged, "producer_epoch", places)
    return _text("sequence ", first, " of epoch ", epoch, " waits for sequence ", expected)


def _fenced(judged: Judged, places: Places) -> pa.StringArray:
    found, expected = _column(judged, "producer_epoch", places), judged.decisions.expected_epoch[places]
    return _text("epoch ", found, " does not stand against the producer's epoch ", expected)


def _coordinator_fenced(judged: Judged, places: Places) -> pa.StringArray:
    found = _column(judged, "coordinator_epoch", places)
    return _text("a newer coordinator than that of epoch ", found, " has written a marker already")


def _invalid_transaction_state(judged: Judged, places: Places) -> pa.StringArray:
    first = _column(judged, "base_sequence", places)
    return _text("the plain batch at sequence ", first, " is inside its producer's open transaction")


def _invalid_record(judged: Judged, places: Places) -> pa.StringArray:
    return pa.array([sentence for _, sentence in _broken_rules(judged, places)], pa.string())


def errors_of_invalid(judged: Judged, places: Places) -> list[KafkaError]:
    """What a broker answers to the batches at `places`, which are all invalid."""
    return [error for error, _ in _broken_rules(judged, places)]


def _broken_rules(judged: Judged, places: Places) -> Iterator[tuple[KafkaError, str]]:
    columns = [values(judged.rows, name)[places].tolist() for name in _RULED]
    for attributes, *row in zip(*columns, strict=True):
        sentence = _what_is_invalid(attributes, *row)
        if sentence is not None:
            yield KafkaError.INVALID_RECORD, sentence
        elif (codec := attributes & CODEC_MASK) > max(Codec):
            yield KafkaError.UNKNOWN_SERVER_ERROR, f"codec {codec}, which Kafka does not have"
        else:
            yield KafkaError.INVALID_TIMESTAMP, "a producer may not claim LogAppendTime"


def _what_is_invalid(  # noqa: PLR0917 — the columns of `_RULED`
    attributes: int,
    magic: int,
    base_offset: int,
    count: int,
    delta: int,
    sequence: int,
    producer_id: int,
    without_key: int,
) -> str | None:
    """Which of Kafka's rules on a client's batch is broken, in their order (facts §2.11)."""
    rules = (
        (magic < MAGIC_V2, f"a message of magic {magic}, which no producer may send any more"),
        (attributes & CONTROL_FLAG, "a control batch, which only a coordinator may send"),
        (base_offset, f"base offset {base_offset} in a client's batch"),
        (count <= 0 or count != delta + 1, f"{count} records for a last offset delta of {delta}"),
        (sequence < 0 and producer_id > NO_PRODUCER_ID, f"base sequence {sequence} with a producer id"),
        (without_key, f"{without_key} of {count} records without a key, in a compacted topic"),
    )
    return next((sentence for is_broken, sentence in rules if is_broken), None)


def _corrupt(judged: Judged, places: Places) -> pa.StringArray:
    problems: Any = judged.rows.column("problem")
    sentences: pa.StringArray = problems.take(pa.array(places, pa.int64()))
    return sentences


def _overlap(judged: Judged, places: Places) -> pa.StringArray:
    offset = _column(judged, "base_offset", places)
    return _text("another copy or an earlier run has brought the log at offset ", offset, " already")


def _behind_gap(judged: Judged, places: Places) -> pa.StringArray:
    first, last = judged.gap or (0, 0)
    sentence = f"held: offsets {first} to {last} before it are in no copy so far"
    return pa.array([sentence] * len(places), pa.string())


def _late(judged: Judged, places: Places) -> pa.StringArray:
    offset = _column(judged, "base_offset", places)
    return _text(
        "offset ", offset, " was in no copy when an earlier run went past it; a backfill of its date takes it"
    )


def _divergent(judged: Judged, places: Places) -> pa.StringArray:
    offset, epoch = _column(judged, "base_offset", places), _column(judged, "partition_leader_epoch", places)
    return _text("another batch stands for offset ", offset, " than that of leader epoch ", epoch)


SENTENCES: dict[Verdict, Sentence] = {
    Verdict.DUPLICATE: _duplicate,
    Verdict.STALE_DUPLICATE: _stale,
    Verdict.OUT_OF_ORDER: _out_of_order,
    Verdict.FENCED: _fenced,
    Verdict.COORDINATOR_FENCED: _coordinator_fenced,
    Verdict.INVALID_TRANSACTION_STATE: _invalid_transaction_state,
    Verdict.INVALID_RECORD: _invalid_record,
    Verdict.CORRUPT: _corrupt,
    Verdict.OVERLAP: _overlap,
    Verdict.DIVERGENT: _divergent,
    Verdict.PARKED: _parked,
    Verdict.BEHIND_GAP: _behind_gap,
    Verdict.LATE: _late,
}
