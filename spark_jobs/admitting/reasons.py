"""The verdicts on a chunk's rows as sentences, a column at a time."""

from collections.abc import Callable, Iterator
from dataclasses import fields
from string import Formatter
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.admitting.judging import Judged
from spark_jobs.protocol.admission import why_invalid
from spark_jobs.protocol.errors import KafkaError
from spark_jobs.protocol.record_batch import LOG_OVERHEAD, RecordBatchHeader
from spark_jobs.protocol.verdict import VERDICTS
from spark_jobs.storage.index_rows import values

OUTSIDE_TRANSACTION = (
    "critical: a non-transactional batch inside its producer's open transaction; no broker could load this "
    "log again"
)

_HEADER = [field.name for field in fields(RecordBatchHeader) if field.name != "batch_length"]

Places = npt.NDArray[np.int64]
Column = npt.NDArray[np.generic] | pa.StringArray


def reasons(judged: Judged) -> pa.StringArray:
    """A reason for every row that was not simply accepted, null for the others."""
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
        (np.flatnonzero(verdict == code), each.reason) for code, each in enumerate(VERDICTS) if each.reason
    ]
    parts = [(places, _filled(judged, places, reason)) for places, reason in found if len(places)]
    outside_transaction = np.flatnonzero(judged.outside_transaction)
    return (
        [
            *parts,
            (outside_transaction, pa.array([OUTSIDE_TRANSACTION] * len(outside_transaction), pa.string())),
        ]
        if len(outside_transaction)
        else parts
    )


def _filled(judged: Judged, places: Places, reason: str) -> pa.StringArray:
    """The reason of a verdict with the values of the batches at `places`."""
    pieces: list[Any] = []
    for words, name, _, _ in Formatter().parse(reason):
        pieces.append(words)
        if name is not None:
            column: Any = VALUES[name](judged, places)
            pieces.append(pa.array(column).cast(pa.string()))
    joined: pa.StringArray = pc.binary_join_element_wise(*pieces, "")
    return joined


def _of_header(name: str) -> Callable[[Judged, Places], Column]:
    return lambda judged, places: values(judged.rows, name)[places]


def _of_decision(name: str) -> Callable[[Judged, Places], Column]:
    return lambda judged, places: np.asarray(getattr(judged.decisions, name)[places])


def _of_gap(end: int) -> Callable[[Judged, Places], Column]:
    return lambda judged, places: np.full(len(places), (judged.gap or (0, 0))[end], dtype=np.int64)


def _problem(judged: Judged, places: Places) -> Column:
    problems: Any = judged.rows.column("problem")
    sentences: pa.StringArray = problems.take(pa.array(places, pa.int64()))
    return sentences


def _broken_rule(judged: Judged, places: Places) -> Column:
    return pa.array([sentence for _, sentence in _broken_rules(judged, places)], pa.string())


VALUES: dict[str, Callable[[Judged, Places], Column]] = {
    **{name: _of_header(name) for name in (*_HEADER, "coordinator_epoch")},
    "offset": _of_decision("base_offset"),
    "expected_sequence": _of_decision("expected_sequence"),
    "expected_epoch": _of_decision("expected_epoch"),
    "gap_first_offset": _of_gap(0),
    "gap_last_offset": _of_gap(1),
    "problem": _problem,
    "broken_rule": _broken_rule,
}
"""What the reason of a verdict can name."""


def errors_of_invalid(judged: Judged, places: Places) -> list[KafkaError]:
    """What a broker answers to the batches at `places`, which are all invalid."""
    return [error for error, _ in _broken_rules(judged, places)]


def _broken_rules(judged: Judged, places: Places) -> Iterator[tuple[KafkaError, str]]:
    columns = [values(judged.rows, name)[places].tolist() for name in (*_HEADER, "size")]
    without_key = values(judged.rows, "records_without_key")[places].tolist()
    for (*row, size), count in zip(zip(*columns, strict=True), without_key, strict=True):
        named = dict(zip(_HEADER, row, strict=True))
        header = RecordBatchHeader(batch_length=size - LOG_OVERHEAD, **named)
        yield why_invalid(header, records_without_key=count)
