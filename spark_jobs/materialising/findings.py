"""What decoding a file's batches brings up besides records, and where that goes."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any

import numpy as np
import pyarrow as pa

from spark_jobs.materialising.decoding import Piece
from spark_jobs.materialising.sources import Objects
from spark_jobs.materialising.table_files import TableFiles
from spark_jobs.protocol.errors import KafkaError
from spark_jobs.protocol.topic_partition import TopicPartition
from spark_jobs.protocol.verdict import Verdict
from spark_jobs.storage.run_folder import OutputFile
from spark_jobs.tables.materialise import QuarantineKind
from spark_jobs.tables.publish import OWN_TABLES

QUARANTINE_SCHEMA = OWN_TABLES["quarantine"].schema

Row = dict[str, Any]


def _batches_of(piece: Piece, offsets: Sequence[int]) -> list[int]:
    """The batches of `piece` that hold these offsets, which ascend as the piece's do."""
    records = piece.found.rows
    rows = np.searchsorted(records.offset, np.array(offsets, dtype=np.int64))
    found: list[int] = records.batch[rows].tolist()
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The origin of pieces; `held` names their file of inherited rows, if any."""

    partition: TopicPartition
    held: str
    objects: Objects


@dataclass(slots=True, kw_only=True)
class Findings:
    """Collects rows of the table `unreadable` and segments, writes rows of `quarantine`, and counts."""

    quarantine: TableFiles
    run_date: date
    unreadable: list[Row] = field(default_factory=list)
    segments: list[OutputFile] = field(default_factory=list)
    decoded: int = 0
    legacy: int = 0
    unfit: int = 0

    def add(self, place: Place, piece: Piece) -> None:
        """Batches of `piece` that cannot be decoded; those of this run are quarantined with all other
        verdicts.
        """
        self.decoded += piece.found.count
        self.legacy += piece.found.count if piece.is_legacy else 0
        for problem in piece.problems:
            claimed = max(int(piece.rows.headers.record_count[problem.batch]), 0)
            reason = str(problem.error)
            self.unreadable.append(
                self._unreadable(
                    place,
                    piece,
                    problem.batch,
                    kind=QuarantineKind.CORRUPT,
                    records=claimed,
                    reason=reason,
                )
            )
            if place.held:
                self._put([self._held_batch(place, piece, problem.batch, reason)])

    def add_unfit(
        self,
        place: Place,
        piece: Piece,
        table: pa.Table,
        reasons: Mapping[int, str],
    ) -> None:
        """Records of `piece`, as rows of `table`, that do not fit for these reasons."""
        self.unfit += len(reasons)
        records = table.take(list(reasons)).to_pylist()
        places = _batches_of(piece, [record["offset"] for record in records])
        for batch, count in sorted(Counter(places).items()):
            text = f"{count} values do not fit the topic's schema"
            kind = QuarantineKind.UNFIT
            self.unreadable.append(
                self._unreadable(place, piece, batch, kind=kind, records=count, reason=text)
            )
        self._put(
            [
                self._unfit_record(place, piece, batch, record, reason)
                for batch, record, reason in zip(places, records, reasons.values(), strict=True)
            ]
        )

    def _put(self, rows: list[Row]) -> None:
        self.quarantine.add(pa.Table.from_pylist(rows, schema=QUARANTINE_SCHEMA))

    @staticmethod
    def _unreadable(
        place: Place, piece: Piece, batch: int, *, kind: QuarantineKind, records: int, reason: str
    ) -> Row:
        return {
            "topic": place.partition.topic,
            "partition": place.partition.partition,
            "held": place.held,
            "object_order": int(piece.rows.object_order[batch]),
            "position": int(piece.rows.headers.position[batch]),
            "offset": int(piece.rows.headers.base_offset[batch]),
            "kind": kind.value,
            "records": records,
            "reason": reason,
        }

    def _quarantined(self, place: Place, piece: Piece, batch: int) -> Row:
        headers = piece.rows.headers
        home = place.objects.places[int(piece.rows.object_order[batch])]
        return {
            "topic": place.partition.topic,
            "partition": place.partition.partition,
            "source": home.source,
            "path": home.path,
            "position": int(headers.position[batch]),
            "producer_id": int(headers.producer_id[batch]),
            "producer_epoch": int(headers.producer_epoch[batch]),
            "run_date": self.run_date,
        }

    def _held_batch(self, place: Place, piece: Piece, batch: int, reason: str) -> Row:
        headers = piece.rows.headers
        position, size = int(headers.position[batch]), int(headers.size[batch])
        return self._quarantined(place, piece, batch) | {
            "size": size,
            "kind": QuarantineKind.CORRUPT.value,
            "verdict": Verdict.CORRUPT.value,
            "kafka_error": Verdict.CORRUPT.kafka_error.name,
            "reason": reason,
            "offset": int(headers.base_offset[batch]),
            "base_sequence": int(headers.base_sequence[batch]),
            "record_count": int(headers.record_count[batch]),
            "bytes": place.objects.read(int(piece.rows.object_order[batch]), position, size),
        }

    def _unfit_record(self, place: Place, piece: Piece, batch: int, record: Row, reason: str) -> Row:
        return self._quarantined(place, piece, batch) | {
            "size": len(record["value"]),
            "kind": QuarantineKind.UNFIT.value,
            "verdict": Verdict.ACCEPTED.value,
            "kafka_error": KafkaError.NONE.name,
            "reason": reason,
            "offset": record["offset"],
            "base_sequence": record["sequence"],
            "record_count": 1,
            "bytes": record["value"],
        }
