"""Synthetic runs of transactions: a broker's log directory whose batches have one empty record each.

Half of the producers speak TV2, half use one epoch for all their transactions. Each transaction writes to two
partitions; in every round each producer runs one. Everything is made in arrays, by the round.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from spark_jobs.kafka.formats.batch_builder import build_batch
from spark_jobs.kafka.formats.control_record import ControlType, write_marker
from spark_jobs.kafka.formats.records import Record
from spark_jobs.kafka.formats.transaction_state import (
    TopicPartitions,
    TransactionLogKey,
    TransactionLogValue,
    TransactionState,
    write_key,
    write_value,
)
from spark_jobs.kernels.crc import library_address
from tests.bench.run_data import NOON, seal

PARTITIONS = 8
COORDINATORS = 8
ROUND_MS = 10_000
DECIDED_MS = 5_000
TIMEOUT_MS = 900_000
HEAVY_AT_A_TIME = 20_000
SEGMENT = "00000000000000000000.log"
_OFFSET, _TIMES, _PRODUCER, _EPOCH = 0, (27, 35), 43, 51
_NUMBER, _PLACES, _STAMP, _OWNER = (
    0x1122334455667788,
    (0x21222324, 0x31323334),
    0x0142434445464748,
    "id-90817263",
)
Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]
Turn = int | Numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class Transactions:
    """How many there are, and of how many batches; one in ten is aborted, the last round stays open.

    `heavy` transactions of two batches each precede them, all by one more producer, one after the other.
    """

    transactions: int
    batches: int = 50
    producers: int = 1000
    heavy: int = 0

    @property
    def heavy_producer(self) -> int:
        """Odd, so that it uses one epoch."""
        return self.producers | 1

    @property
    def rounds(self) -> int:
        return max(self.transactions // self.producers, 1)


def write_transactions(root: Path, run: Transactions) -> int:
    """Writes the log directory below `root`, unless it is there; how many batches it holds."""
    done = root / "_written"
    if not done.exists():
        for partition in range(PARTITIONS):
            _write(root / f"orders-{partition}", _partition(run, partition))
        for partition in range(COORDINATORS):
            _write(root / f"__transaction_state-{partition}", _coordinator(run, partition))
        done.touch()
    return run.rounds * run.producers * run.batches + 2 * run.heavy


def _write(directory: Path, rounds: Iterator[bytes]) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / SEGMENT).open("wb") as file:
        file.writelines(rounds)


def _partition(run: Transactions, partition: int) -> Iterator[bytes]:
    """The log of one partition: those who write there, batch by batch, then their markers."""
    numbers = np.arange(run.producers)
    own = numbers[(numbers % PARTITIONS == partition) | ((numbers + 1) % PARTITIONS == partition)]
    data, marker = _data_template(), _marker_template()
    per_partition = run.batches // 2
    offset = 0
    if partition in {run.heavy_producer % PARTITIONS, (run.heavy_producer + 1) % PARTITIONS}:
        yield from _heavy_partition(run)
        offset = 2 * run.heavy
    for turn in range(run.rounds):
        start = NOON + turn * ROUND_MS
        senders = np.tile(own, per_partition)
        rows = _rows(data, senders, turn, offset)
        _put_times(rows, start + np.repeat(np.arange(per_partition), len(own)) * 100)
        yield _sealed(rows)
        offset += len(rows)
        if turn + 1 < run.rounds:
            rows = _rows(marker, own, turn, offset, ended=True)
            _put_times(rows, np.full(len(own), start + DECIDED_MS + 1))
            _put_kind(rows, own, turn)
            yield _sealed(rows)
            offset += len(rows)


def _turns(run: Transactions) -> Iterator[Numbers]:
    """The rounds of the heavy producer, which are over before the others' begin."""
    for start in range(0, run.heavy, HEAVY_AT_A_TIME):
        yield np.arange(start, min(start + HEAVY_AT_A_TIME, run.heavy)) - run.heavy


def _heavy_partition(run: Transactions) -> Iterator[bytes]:
    """A batch and a marker for each transaction of the heavy producer."""
    offset = 0
    for turns in _turns(run):
        own = np.full(len(turns), run.heavy_producer)
        data = _rows(_data_template(), own, turns, offset, step=2)
        _put_times(data, NOON + turns * ROUND_MS)
        markers = _rows(_marker_template(), own, turns, offset + 1, ended=True, step=2)
        _put_times(markers, NOON + turns * ROUND_MS + DECIDED_MS + 1)
        _put_kind(markers, own, turns)
        yield _side_by_side(data, markers)
        offset += 2 * len(turns)


def _side_by_side(*batches: Bytes) -> bytes:
    """The first of each, then the second of each."""
    for rows in batches:
        seal(rows, rows.reshape(-1), library_address())
    return np.hstack(batches).tobytes()


def _rows(
    template: bytes, producers: Numbers, turn: Turn, offset: int, *, ended: bool = False, step: int = 1
) -> Bytes:
    rows = np.tile(np.frombuffer(template, dtype=np.uint8), (len(producers), 1))
    _put(rows, _OFFSET, (offset + step * np.arange(len(producers))).astype(">i8"))
    _put(rows, _PRODUCER, producers.astype(">i8"))
    _put(rows, _EPOCH, _epochs(producers, turn, ended=ended).astype(">i2"))
    return rows


def _epochs(producers: Numbers, turn: Turn, *, ended: bool) -> Numbers:
    """Even producers speak TV2: an epoch per transaction, and its end has the next one."""
    return np.where(producers % 2 == 0, turn + ended, 0)


def is_aborted(producers: Numbers, turn: Turn) -> npt.NDArray[np.bool_]:
    aborted: npt.NDArray[np.bool_] = (producers + turn) % 10 == 0
    return aborted


def _put_times(rows: Bytes, times: Numbers) -> None:
    for place in _TIMES:
        _put(rows, place, times.astype(">i8"))


def _put_kind(rows: Bytes, producers: Numbers, turn: Turn) -> None:
    """The marker's key is two numbers of two bytes: version, then type."""
    place = _marker_template().index(b"\x00\x00\x00\x01", 61) + 3
    rows[:, place] = np.where(is_aborted(producers, turn), ControlType.ABORT, ControlType.COMMIT)


def _put(rows: Bytes, place: int, values: npt.NDArray[np.generic]) -> None:
    rows[:, place : place + values.itemsize] = values.view(np.uint8).reshape(len(rows), values.itemsize)


def _sealed(rows: Bytes) -> bytes:
    seal(rows, rows.reshape(-1), library_address())
    return rows.tobytes()


def _data_template() -> bytes:
    return build_batch(
        records=[Record(value=b"")],
        base_timestamp=0,
        partition_leader_epoch=0,
        producer_id=0,
        producer_epoch=0,
        base_sequence=0,
        is_transactional=True,
    )


def _marker_template() -> bytes:
    return write_marker(
        base_offset=0,
        partition_leader_epoch=0,
        timestamp=0,
        producer_id=0,
        producer_epoch=0,
        control_type=ControlType.COMMIT,
        coordinator_epoch=0,
    )


def _coordinator(run: Transactions, partition: int) -> Iterator[bytes]:
    """Three records per transaction: it begins, is decided, is complete."""
    own = np.arange(partition, run.producers, COORDINATORS)
    states = (TransactionState.ONGOING, TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT)
    templates = [_entry_template(state) for state in states]
    offset = 0
    if partition == run.heavy_producer % COORDINATORS:
        yield from _heavy_coordinator(run, dict(zip(states, templates, strict=True)))
        offset = 3 * run.heavy
    for turn in range(run.rounds):
        is_last = turn + 1 == run.rounds
        for template, state in zip(templates[: 1 if is_last else 3], states, strict=False):
            rows = np.tile(np.frombuffer(template, dtype=np.uint8), (len(own), 1))
            _put(rows, _OFFSET, (offset + np.arange(len(own))).astype(">i8"))
            _patch(rows, template, own, state, turn=turn)
            yield _sealed(rows)
            offset += len(own)


def _heavy_coordinator(run: Transactions, templates: Mapping[TransactionState, bytes]) -> Iterator[bytes]:
    """Three records for each transaction of the heavy producer."""
    offset = 0
    for turns in _turns(run):
        own = np.full(len(turns), run.heavy_producer)
        batches = []
        for place, (state, template) in enumerate(templates.items()):
            rows = np.tile(np.frombuffer(template, dtype=np.uint8), (len(own), 1))
            _put(rows, _OFFSET, (offset + place + 3 * np.arange(len(own))).astype(">i8"))
            _patch(rows, template, own, state, turn=turns)
            batches.append(rows)
        yield _side_by_side(*batches)
        offset += 3 * len(turns)


def _entry_template(state: TransactionState) -> bytes:
    listed = TopicPartitions(topic="orders", partition_ids=_PLACES)
    value = TransactionLogValue(
        producer_id=_NUMBER,
        producer_epoch=0x5152,
        transaction_timeout_ms=TIMEOUT_MS,
        transaction_status=state,
        transaction_partitions=() if state.is_complete else (listed,),
        transaction_last_update_timestamp_ms=_STAMP,
        transaction_start_timestamp_ms=_STAMP,
        client_transaction_version=2,
    )
    record = Record(key=write_key(TransactionLogKey(transactional_id=_OWNER)), value=write_value(value))
    return build_batch(records=[record], base_timestamp=NOON, partition_leader_epoch=0)


def _patch(rows: Bytes, template: bytes, producers: Numbers, state: TransactionState, *, turn: Turn) -> None:
    """Puts the round's values in place of those that mark the template's fields."""
    start = NOON + turn * ROUND_MS
    names = np.char.zfill(producers.astype(str), 8).astype("S8")
    _put(rows, template.index(_OWNER.encode()) + 3, names)
    pid = template.index(_NUMBER.to_bytes(8))
    _put(rows, pid, producers.astype(">i8"))
    ended = state is not TransactionState.ONGOING
    _put(rows, pid + 8, _epochs(producers, turn, ended=ended).astype(">i2"))
    if ended:
        rows[:, pid + 14] = int(state) + is_aborted(producers, turn)
    for add, place in enumerate(() if state.is_complete else _PLACES):
        _put(rows, template.index(place.to_bytes(4)), ((producers + add) % PARTITIONS).astype(">i4"))
    updated = template.index(_STAMP.to_bytes(8))
    _put(rows, updated, np.full(len(producers), start + ended * DECIDED_MS, dtype=">i8"))
    _put(rows, updated + 8, np.full(len(producers), start, dtype=">i8"))
    version = template.rindex(b"\x02\x02\x00\x02") + 3
    rows[:, version] = np.where(producers % 2 == 0, 2, 0)
