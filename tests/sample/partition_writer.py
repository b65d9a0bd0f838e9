"""A partition's log, batch by batch, as a broker would have written it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from spark_jobs.kafka.formats.batch_builder import build_batch
from spark_jobs.kafka.formats.checkpoints import EpochEntry, write_leader_epochs
from spark_jobs.kafka.formats.control_record import ControlType, write_marker
from spark_jobs.kafka.formats.indexes import AbortedTxn, write_txn_index
from spark_jobs.kafka.formats.log_files import LEADER_EPOCH_CHECKPOINT, LogFileKind, segment_file_name
from spark_jobs.kafka.formats.record_batch import Codec
from spark_jobs.kafka.formats.records import Header, Record

MIDNIGHT = 1_767_225_600_000
"""2026-01-01 in milliseconds."""
LEADER_EPOCH = 3


@dataclass(slots=True)
class PartitionWriter:
    """One segment that grows; offsets, sequences and times follow from what was written before."""

    batches: list[bytes] = field(default_factory=list)
    aborted: list[AbortedTxn] = field(default_factory=list)
    next_offset: int = 0
    next_sequence: dict[int, int] = field(default_factory=dict)
    open_from: dict[int, int] = field(default_factory=dict)

    def send(
        self,
        values: Sequence[bytes | None],
        *,
        producer_id: int = -1,
        transactional: bool = False,
        codec: Codec = Codec.NONE,
        headers: tuple[Header, ...] = (),
    ) -> None:
        """One batch of keyed records."""
        records = [
            Record(offset_delta=n, timestamp_delta=n, key=b"key-%d" % n, value=value, headers=headers)
            for n, value in enumerate(values)
        ]
        idempotent = producer_id >= 0
        sequence = self.next_sequence.get(producer_id, 0) if idempotent else -1
        batch = build_batch(
            records=records,
            base_timestamp=MIDNIGHT + self.next_offset * 1000,
            base_offset=self.next_offset,
            partition_leader_epoch=LEADER_EPOCH,
            codec=codec,
            producer_id=producer_id,
            producer_epoch=0 if idempotent else -1,
            base_sequence=sequence,
            is_transactional=transactional,
        )
        if transactional:
            self.open_from.setdefault(producer_id, self.next_offset)
        self.next_sequence[producer_id] = sequence + len(records)
        self.append(batch, len(records))

    def end(self, producer_id: int, control_type: ControlType) -> None:
        """A marker; an abort of a transaction with data enters the index."""
        marker = write_marker(
            base_offset=self.next_offset,
            partition_leader_epoch=LEADER_EPOCH,
            timestamp=MIDNIGHT + self.next_offset * 1000,
            producer_id=producer_id,
            producer_epoch=0,
            control_type=control_type,
            coordinator_epoch=1,
        )
        first_offset = self.open_from.pop(producer_id, None)
        if control_type is ControlType.ABORT and first_offset is not None:
            self.aborted.append(
                AbortedTxn(
                    producer_id=producer_id,
                    first_offset=first_offset,
                    last_offset=self.next_offset,
                    last_stable_offset=min(self.open_from.values(), default=self.next_offset + 1),
                )
            )
        self.append(marker, 1)

    def append(self, batch: bytes, offsets: int) -> None:
        """A finished batch that takes so many offsets."""
        self.batches.append(batch)
        self.next_offset += offsets

    def write(self, directory: Path, *, tail: bytes = b"") -> Path:
        """The partition's files; `tail` is behind the last batch. Returns the segment's path."""
        directory.mkdir(parents=True, exist_ok=True)
        segment = directory / segment_file_name(0, LogFileKind.LOG)
        segment.write_bytes(b"".join(self.batches) + tail)
        index = directory / segment_file_name(0, LogFileKind.TXN_INDEX)
        index.write_bytes(write_txn_index(self.aborted))
        epochs = [EpochEntry(epoch=LEADER_EPOCH, start_offset=0)]
        (directory / LEADER_EPOCH_CHECKPOINT).write_bytes(write_leader_epochs(epochs))
        return segment
