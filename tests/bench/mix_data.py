"""The run that everything is compared on: a capture of transactions, with aborts and duplicates.

Batches of 16 to 64 KB (uncompressed) with values of 200 bytes, one transaction in ten aborted, one batch in
twenty sent twice, markers in the capture, an epoch per transaction. The same bytes every time; the codecs
differ in nothing but compression. Without markers, the coordinator's log beside the capture has the outcomes.
"""

import random
import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import google_crc32c

from spark_jobs.kafka.formats.batch_builder import build_batch
from spark_jobs.kafka.formats.control_record import ControlType, write_marker
from spark_jobs.kafka.formats.record_batch import CRC_OFFSET, CRC_START, Codec, assign_offset
from spark_jobs.kafka.formats.records import Record
from spark_jobs.kafka.formats.transaction_state import (
    TopicPartitions,
    TransactionLogKey,
    TransactionLogValue,
    TransactionState,
    write_key,
    write_value,
)
from tests.bench.run_data import NOON

VALUE_SIZE = 200
FEWEST, MOST = 76, 304
"""Records of a batch: 16 and 64 KB of them."""
POOL = 128
"""Distinct batches: more of them than any window of a codec reaches."""
PRODUCERS = 16
"""On every partition, in turn."""
BATCHES_PER_TRANSACTION = 5
TURN_MS = 20
OBJECT_BYTES = 64 * 2**20
_TIMES, _PRODUCER = struct.Struct(">qq"), struct.Struct(">qhi")
_TIMES_AT, _PRODUCER_AT = 27, 43


@dataclass(frozen=True, slots=True, kw_only=True)
class Mix:
    """How many records there are on how many partitions; duplicates come on top."""

    records: int = 10_000_000
    partitions: int = 8
    codec: Codec = Codec.LZ4
    markers: bool = True

    @property
    def name(self) -> str:
        name = f"{self.codec.name.lower()}-{self.records}-{self.partitions}"
        return name if self.markers else f"{name}-unmarked"


@dataclass(frozen=True, slots=True)
class _Template:
    data: bytes
    records: int


def write_mix(root: Path, mix: Mix) -> Path:
    """The directory of the capture below `root`; what is there already is kept."""
    capture = root / mix.name / "capture"
    done = root / mix.name / "_written"
    if not done.exists():
        pool, epochs = _pool(mix.codec), []
        for partition in range(mix.partitions):
            directory = capture / "dt=2024-05-01" / f"orders-{partition}"
            directory.mkdir(parents=True, exist_ok=True)
            batches = _Batches(pool, partition, mix.records // mix.partitions, markers=mix.markers)
            _write_objects(directory, iter(batches))
            epochs.append(batches.epochs)
        if not mix.markers:
            directory = coordinator_of(capture) / "__transaction_state-0"
            directory.mkdir(parents=True, exist_ok=True)
            (directory / f"{0:020d}.log").write_bytes(b"".join(_coordinator(epochs)))
        done.touch()
    return capture


def coordinator_of(capture: Path) -> Path:
    """The log directory with the coordinator's log of a capture without markers."""
    return capture.with_name("coordinator")


def objects_of(capture: Path) -> list[Path]:
    """The files with batches, in order."""
    return sorted(path for path in capture.glob("dt=*/*/*") if path.is_file())


def partition_of(path: Path) -> int:
    """The partition whose batches an object holds."""
    return int(path.parent.name.rpartition("-")[2])


def _write_objects(directory: Path, batches: Iterator[bytes]) -> None:
    held, size, number = [], 0, 0
    for batch in batches:
        held.append(batch)
        size += len(batch)
        if size >= OBJECT_BYTES:
            (directory / f"{number:04d}").write_bytes(b"".join(held))
            held, size, number = [], 0, number + 1
    if held:
        (directory / f"{number:04d}").write_bytes(b"".join(held))


class _Batches:
    """Transactions of all producers side by side, until there are enough records, all of them ended."""

    def __init__(self, pool: list[_Template], partition: int, records: int, *, markers: bool) -> None:
        self._pool, self._partition, self._records, self._markers = pool, partition, records, markers
        self.epochs = 0

    def __iter__(self) -> Iterator[bytes]:
        pool, partition, records = self._pool, self._partition, self._records
        chance, clock = random.Random(partition), NOON
        while records > 0:
            epoch = self.epochs
            for turn in range(BATCHES_PER_TRANSACTION):
                yield from _turn(pool, chance, partition=partition, epoch=epoch, turn=turn, clock=clock)
                clock += TURN_MS
                records -= sum(_pick(pool, partition, epoch, turn, each).records for each in range(PRODUCERS))
            if self._markers:
                yield from (_marker(partition, producer, epoch, clock) for producer in range(PRODUCERS))
            self.epochs += 1


def _coordinator(epochs: list[int]) -> Iterator[bytes]:
    """Three records for each transaction: it begins, is decided, is complete; `epochs` by partition."""
    offset = 0
    for epoch in range(max(epochs)):
        own = [p for p, count in enumerate(epochs) if epoch < count]
        states = (TransactionState.ONGOING, TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT)
        for state in states:
            records = [
                _entry(partition, producer, epoch, state)
                for partition in own
                for producer in range(PRODUCERS)
            ]
            numbered = [replace(record, offset_delta=delta) for delta, record in enumerate(records)]
            batch = build_batch(records=numbered, base_timestamp=NOON)
            yield assign_offset(batch, base_offset=offset, partition_leader_epoch=0)
            offset += len(records)


def _entry(partition: int, producer: int, epoch: int, state: TransactionState) -> Record:
    """A record of the coordinator's log; from the decision on the epoch is the next one (facts §3)."""
    is_open = state is TransactionState.ONGOING
    start = NOON + epoch * BATCHES_PER_TRANSACTION * TURN_MS
    end = start + BATCHES_PER_TRANSACTION * TURN_MS
    listed = TopicPartitions(topic="orders", partition_ids=(partition,))
    value = TransactionLogValue(
        producer_id=_producer_id(partition, producer),
        producer_epoch=epoch if is_open else epoch + 1,
        transaction_timeout_ms=60_000,
        transaction_status=state if is_open or not _is_aborted(epoch, producer) else _ABORTED[state],
        transaction_partitions=() if state.is_complete else (listed,),
        transaction_last_update_timestamp_ms=start if is_open else end,
        transaction_start_timestamp_ms=start,
        client_transaction_version=2,
    )
    transactional_id = f"orders-{_producer_id(partition, producer)}"
    return Record(
        key=write_key(TransactionLogKey(transactional_id=transactional_id)), value=write_value(value)
    )


_ABORTED = {
    TransactionState.PREPARE_COMMIT: TransactionState.PREPARE_ABORT,
    TransactionState.COMPLETE_COMMIT: TransactionState.COMPLETE_ABORT,
}


def _is_aborted(epoch: int, producer: int) -> bool:
    return (epoch * PRODUCERS + producer) % 10 == 0


def _turn(
    pool: list[_Template], chance: random.Random, *, partition: int, epoch: int, turn: int, clock: int
) -> Iterator[bytes]:
    """A batch of every producer; what is sent twice comes again before the next turn."""
    again = []
    for producer in range(PRODUCERS):
        sequence = sum(_pick(pool, partition, epoch, before, producer).records for before in range(turn))
        template = _pick(pool, partition, epoch, turn, producer)
        batch = _stamp(template.data, _producer_id(partition, producer), epoch, sequence, clock)
        yield batch
        if chance.random() < 0.05:
            again.append(batch)
    yield from again


def _pick(pool: list[_Template], *numbers: int) -> _Template:
    number = 0
    for each in numbers:
        number = number * 31 + each
    return pool[number % len(pool)]


def _producer_id(partition: int, producer: int) -> int:
    return 1000 * partition + producer


def _stamp(template: bytes, producer_id: int, epoch: int, sequence: int, clock: int) -> bytes:
    """The batch as that producer would have sent it; what is compressed stays as it is."""
    batch = bytearray(template)
    first, last = _TIMES.unpack_from(batch, _TIMES_AT)
    _TIMES.pack_into(batch, _TIMES_AT, clock, clock + last - first)
    _PRODUCER.pack_into(batch, _PRODUCER_AT, producer_id, epoch, sequence)
    struct.pack_into(">I", batch, CRC_OFFSET, google_crc32c.value(bytes(batch[CRC_START:])))
    return bytes(batch)


def _marker(partition: int, producer: int, epoch: int, clock: int) -> bytes:
    aborted = _is_aborted(epoch, producer)
    return write_marker(
        base_offset=0,
        partition_leader_epoch=0,
        timestamp=clock,
        producer_id=_producer_id(partition, producer),
        producer_epoch=epoch + 1,
        control_type=ControlType.ABORT if aborted else ControlType.COMMIT,
        coordinator_epoch=0,
    )


def _pool(codec: Codec) -> list[_Template]:
    chance = random.Random(7)
    sizes = [chance.randint(FEWEST, MOST) for _ in range(POOL)]
    return [_Template(_template(chance, size, codec), size) for size in sizes]


def _template(chance: random.Random, records: int, codec: Codec) -> bytes:
    return build_batch(
        records=[_record(chance, number) for number in range(records)],
        base_timestamp=NOON,
        codec=codec,
        producer_id=0,
        producer_epoch=0,
        base_sequence=0,
        is_transactional=True,
    )


def _record(chance: random.Random, number: int) -> Record:
    key = b"customer-%06d" % chance.randrange(10**6)
    return Record(offset_delta=number, timestamp_delta=number // 16, key=key, value=_order(chance))


def _order(chance: random.Random) -> bytes:
    """An order as JSON, filled up to its size: it compresses about as well as such things do."""
    text = (
        f'{{"order_id":"{chance.getrandbits(48):012x}","customer_id":{chance.randrange(10**6)},'
        f'"sku":"{chance.choice(_SHELVES)}-{chance.randrange(10**4):04d}",'
        f'"quantity":{chance.randrange(1, 9)},'
        f'"amount":{chance.randrange(10**5) / 100:.2f},"currency":"EUR","status":"{chance.choice(_STATES)}",'
        f'"note":"'
    )
    rest = VALUE_SIZE - len(text) - 2
    note = " ".join(chance.choices(_WORDS, k=rest // 3))[:rest]
    return f'{text}{note}"}}'.encode()


_SHELVES = ("tea", "book", "lamp", "shoe", "coin")
_STATES = ("created", "paid", "packed", "shipped", "returned")
_WORDS = (
    "leave",
    "at",
    "the",
    "back",
    "door",
    "or",
    "ring",
    "twice",
    "when",
    "gift",
    "wrapped",
    "please",
    "call",
)
