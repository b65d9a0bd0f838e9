"""`onceover.admit`: the verdicts of a broker on the batches of one partition."""

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

import pyarrow as pa

from spark_jobs.kafka.errors import CorruptData, KafkaError
from spark_jobs.kafka.formats.control_record import read_marker
from spark_jobs.kafka.formats.record_batch import RecordBatchHeader
from spark_jobs.kafka.log.segment import check_scanned_crc, scan
from spark_jobs.kafka.producers.admission import fold
from spark_jobs.kafka.producers.producer_state import NO_OFFSET, ProducerStates
from spark_jobs.kafka.producers.verdict import BatchRow, Decision, Rules, Verdict
from spark_jobs.reading.errors import UnknownOption
from spark_jobs.tables.contract import Column, Contract

VERDICTS = Contract(
    name="verdicts",
    meaning="A broker's answer to every batch, in the order in which they arrived.",
    columns=(
        Column("batch", pa.int32(), "number of the batch, from 0"),
        Column("verdict", pa.string(), "accepted, duplicate, or why it is refused"),
        Column("kafka_error", pa.string(), "name of the error that a broker answers; NONE if it would not"),
        Column("base_offset", pa.int64(), "first offset in the log; null if it is refused", True),
        Column("last_offset", pa.int64(), "last offset in the log; null if it is refused", True),
        Column("producer_id", pa.int64(), "-1 without a producer id", True),
        Column("producer_epoch", pa.int32(), "-1 without a producer id", True),
        Column("base_sequence", pa.int32(), "sequence of its first record; -1 for none", True),
        Column("expected_sequence", pa.int32(), "the sequence that was next; -1 where any is accepted", True),
        Column("reason", pa.string(), "why it was not simply accepted; else null", True),
    ),
    key=("batch",),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Admitted:
    """A verdict per batch, and the state of the partition's producers after them."""

    verdicts: pa.Table = field(repr=False)
    state: ProducerStates


def admit(batches: bytes | Iterable[bytes], state: ProducerStates | None = None) -> Admitted:
    """Judges the batches of one partition as its leader would, in the order in which they arrive.

    `batches` are record batches of magic 2 as producers send them: bytes with one or more of them, or many
    such bytes. Control batches are markers of a coordinator. `state` is that of an earlier call, None for a
    new partition; it is not changed. A batch with a wrong checksum is refused as a broker refuses it.
    """
    read = list(_read(batches))
    before = ProducerStates() if state is None else state
    decisions, after = fold(before, [row for row in read if isinstance(row, BatchRow)], rules=Rules())
    judged = iter(decisions)
    rows = [_row(row, next(judged) if isinstance(row, BatchRow) else None) for row in read]
    columns = {
        name: pa.array([row.get(name) for row in rows], VERDICTS.schema.field(name).type)
        for name in VERDICTS.schema.names[1:]
    }
    numbers = pa.array(range(len(rows)), pa.int32())
    return Admitted(verdicts=VERDICTS.cast(pa.table({"batch": numbers, **columns})), state=after)


def _read(batches: bytes | Iterable[bytes]) -> Iterator[BatchRow | CorruptData]:
    """The headers of all batches; an error in place of a batch with a wrong checksum."""
    for number, data in enumerate([batches] if isinstance(batches, bytes) else batches):
        if not isinstance(data, bytes | bytearray | memoryview):
            raise UnknownOption(f"batches: expected bytes, found {type(data).__name__}")
        source = f"batches[{number}]"
        for batch in scan(data, source=source, check_crc=False):
            if not isinstance(batch.header, RecordBatchHeader):
                raise UnknownOption(f"{source}: a message of magic {batch.header.magic}; expected magic 2")
            try:
                check_scanned_crc(data, batch, source=source)
                marker = read_marker(bytes(data[batch.position : batch.end]))
            except CorruptData as error:
                yield error
            else:
                yield BatchRow(header=batch.header, marker=marker)


def _row(row: BatchRow | CorruptData, decision: Decision | None) -> dict[str, Any]:
    if isinstance(row, CorruptData) or decision is None:
        return {
            "verdict": str(Verdict.CORRUPT),
            "kafka_error": KafkaError.CORRUPT_MESSAGE.name,
            "reason": str(row),
        }
    is_stored = decision.base_offset != NO_OFFSET
    return {
        "verdict": str(decision.verdict),
        "kafka_error": decision.kafka_error.name,
        "base_offset": decision.base_offset if is_stored else None,
        "last_offset": decision.last_offset if is_stored else None,
        "producer_id": row.header.producer_id,
        "producer_epoch": row.header.producer_epoch,
        "base_sequence": row.header.base_sequence,
        "expected_sequence": decision.expected_sequence,
        "reason": _reason(row, decision),
    }


def _reason(row: BatchRow, decision: Decision) -> str | None:
    """Why a batch was not accepted, in the words of its verdict."""
    named = {
        **asdict(row.header),
        "offset": decision.base_offset,
        "expected_sequence": decision.expected_sequence,
        "expected_epoch": decision.expected_epoch,
        "coordinator_epoch": row.marker.coordinator_epoch if row.marker else None,
        "broken_rule": decision.message,
    }
    is_accepted = decision.verdict is Verdict.ACCEPTED
    return None if is_accepted else decision.verdict.reason.format_map(named)
