"""Short helpers that append to a partition's log as leader, coordinator or follower."""

from spark_jobs.kafka.producers.producer_state import AppendOrigin, TransactionVersion
from spark_jobs.kafka.producers.verdict import Verdict
from spark_jobs.sample.broker.log_segment import base_offset_of
from spark_jobs.sample.broker.partition_log import AppendResult, PartitionLog, fetch
from spark_jobs.sample.broker.replica_log import PartitionConfig
from tests.cases.batch_rows import T0
from tests.kafka.broker_batches import abort_batch, commit_batch, data_batch, plain_batch

NOW = T0 + 1000
UNVERIFIED = PartitionConfig(transaction_partition_verification_enable=False)


class Writer:
    """A leader's log and the sequences of its producers; verification is off unless `config` says so."""

    def __init__(self, config: PartitionConfig = UNVERIFIED, log: PartitionLog | None = None) -> None:
        self.log = PartitionLog(config, now=NOW) if log is None else log
        self._next_sequence: dict[int, int] = {}

    def data(self, pid: int = 1, count: int = 1, *, txn: bool = True, epoch: int = 0) -> AppendResult:
        """The producer's next batch, accepted."""
        sequence = self._next_sequence.get(pid, 0)
        self._next_sequence[pid] = sequence + count
        return self.send(data_batch(pid=pid, epoch=epoch, seq=sequence, count=count, txn=txn))

    def plain(self, count: int = 1) -> AppendResult:
        return self.send(plain_batch(count=count))

    def send(self, batch: bytes) -> AppendResult:
        result = self.log.append(batch, now=NOW)
        assert result.decision.verdict is Verdict.ACCEPTED, result
        return result

    def commit(self, pid: int = 1, *, epoch: int = 0, coord: int = 0) -> AppendResult:
        return self.mark(commit_batch(pid=pid, epoch=epoch, coord=coord))

    def abort(self, pid: int = 1, *, epoch: int = 0, coord: int = 0) -> AppendResult:
        return self.mark(abort_batch(pid=pid, epoch=epoch, coord=coord))

    def mark(self, marker: bytes, version: TransactionVersion = TransactionVersion.TV0) -> AppendResult:
        return self.log.append(marker, now=NOW, origin=AppendOrigin.COORDINATOR, transaction_version=version)

    def replicate(self) -> None:
        """Everything written so far is on all replicas."""
        self.log.update_high_watermark(self.log.log_end_offset)


def log_bytes(log: PartitionLog) -> bytes:
    """All segments, one after the other."""
    return b"".join(bytes(segment.data) for segment in log.segments)


def fetched_offsets(log: PartitionLog, offset: int, *, read_committed: bool = True) -> list[int]:
    """Base offsets of the batches that a consumer gets from `offset` on."""
    return [base_offset_of(batch) for batch in fetch(log, offset, read_committed=read_committed).batches]


def mixed_transactions(log: PartitionLog | None = None) -> PartitionLog:
    """Four producers' transactions and plain data, interleaved: pids 1 and 2 abort, 3 and 4 commit."""
    writer = Writer(log=log)
    writer.data(1, 5)
    writer.plain(3)
    writer.data(2, 2)
    writer.data(1, 4)
    writer.data(3, 3)
    writer.plain(2)
    writer.data(1, 10)
    writer.abort(1)
    writer.data(2, 6)
    writer.data(4, 3)
    writer.plain(10)
    writer.data(3, 9)
    writer.commit(3)
    writer.data(4, 8)
    writer.data(2, 7)
    writer.abort(2)
    writer.plain(10)
    writer.data(4, 4)
    writer.commit(4)
    return writer.log
