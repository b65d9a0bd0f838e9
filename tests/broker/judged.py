"""Kafka's classes compared with our folds, readers and coordinator codecs; `log_plays` compares the log."""

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

from spark_jobs.kafka.errors import CorruptData, TornBatch
from spark_jobs.kafka.formats import consumer_offsets
from spark_jobs.kafka.formats import transaction_state as coordinator_log
from spark_jobs.kafka.formats.batch_builder import seal
from spark_jobs.kafka.formats.consumer_offsets import OffsetCommitKey, OffsetCommitValue
from spark_jobs.kafka.formats.control_record import read_marker
from spark_jobs.kafka.formats.record_batch import HEADER_SIZE, Codec, RecordBatchHeader, read_header
from spark_jobs.kafka.formats.records import LogRecord
from spark_jobs.kafka.formats.transaction_state import TopicPartitions, TransactionLogValue, TransactionState
from spark_jobs.kafka.log.segment import read_batch_records, scan
from spark_jobs.kafka.producers.admission import fold
from spark_jobs.kafka.producers.parking import Decided, fold_with_parking
from spark_jobs.kafka.producers.producer_state import AppendOrigin, ProducerStates, TransactionVersion
from spark_jobs.kafka.producers.verdict import BatchRow, Rules, Verdict
from spark_jobs.kernels.admission import fold as fold_in_kernel
from spark_jobs.kernels.decode import decode_batches
from spark_jobs.kernels.producers import states_of, table_of
from spark_jobs.kernels.scan import ERROR_OF, scan_headers
from tests.broker.kafka_classes import Judge, decoded
from tests.broker.log_plays import T0, Scribe, Step, agree, data_of, marker_of, producers_in, row_of
from tests.kernels.histories import columns_of
from tests.kernels.test_admission import decisions_of
from tests.kernels.test_parking import fold_with_kernel
from tests.recordings.coordinator_json import offset_key_json, offset_value_json, transaction_value_json

MANY = 1000
UNBOUNDED = {"internal.segment.bytes": str(1 << 26), "segment.ms": str(10**12), "retention.ms": "-1"}


# -- folds ---------------------------------------------------------------------------------------------------


def fold_steps(random: Random, count: int) -> list[Step]:
    """Batches and markers as they arrive at a partition."""
    scribe = Scribe(random)
    steps = [scribe.mark() if random.random() < 0.25 else scribe.append() for _ in range(count)]
    return [{**step, "mutation": None, "tail": 0, "key": True, "age": 0} for step in steps]


def fold_config(random: Random) -> Step:
    """Under which rules: who writes, and which transaction version it has."""
    return {
        "origin": random.choice(("client", "client", "client", "coordinator", "replication")),
        "tv": random.choice((0, 1, 2)),
        "markers": random.choice((None, 0, 1, 2)),
    }


class FoldPlay:
    """One partition's history at `UnifiedLog`, at the pure fold, at the kernel, and parked at both."""

    def __init__(self, judge: Judge, folder: Path, config: Step) -> None:
        self._judge, self._folder, self.batches = judge, folder, 0
        versions = tuple(TransactionVersion)
        self.rules = Rules(
            origin=AppendOrigin(config["origin"]),
            transaction_version=versions[config["tv"]],
            marker_version=None if config["markers"] is None else versions[config["markers"]],
        )

    def play(self, steps: list[Step]) -> None:
        """Applies all batches everywhere; raises on any difference."""
        rows, batches = self._rows(steps)
        decisions, states = fold(ProducerStates(), rows, rules=self.rules)
        self._judge_all("fold", list(enumerate(decisions)), batches, states)
        table = table_of(ProducerStates())
        agree(
            "kernel", decisions, decisions_of(fold_in_kernel(columns_of(rows), table, rules=self.rules), rows)
        )
        agree("kernel's producers", states, states_of(table))
        if self.rules.origin is AppendOrigin.CLIENT:
            parked = fold_with_parking(ProducerStates(), (), rows, rules=self.rules, most=MANY)
            self._judge_all("parking", parked.judged, batches, parked.states)
            agree(
                "parking kernel",
                parked,
                fold_with_kernel(ProducerStates(), (), rows, rules=self.rules, most=MANY),
            )

    def _rows(self, steps: list[Step]) -> tuple[list[BatchRow], list[bytes]]:
        rows, batches, offset = [], [], 0
        for number, step in enumerate(steps):
            make = marker_of if step["do"] == "mark" else data_of
            at = offset if self.rules.origin is AppendOrigin.REPLICATION else 0
            batch = make(step, T0 + number, at=at)
            header, marker = read_header(batch), read_marker(batch) if step["do"] == "mark" else None
            rows.append(BatchRow(header=header, marker=marker))
            batches.append(batch)
            offset = header.next_offset
        return rows, batches

    def _judge_all(
        self, name: str, judged: Sequence[Decided], batches: list[bytes], states: ProducerStates
    ) -> None:
        """`judged` in its order at the judge; what is parked must be out of order there."""
        self._open(name)
        end = 0
        for place, decision in judged:
            answer = self._append(batches[place], place)
            self.batches += 1
            agree(f"{name} of batch {place}", answer.get("error", "NONE"), decision.kafka_error.name)
            if "error" not in answer:
                offsets = (answer["base_offset"], answer["last_offset"], answer["appended"])
                ours = (decision.base_offset, decision.last_offset, decision.verdict is Verdict.ACCEPTED)
                agree(f"{name} of batch {place}", offsets, ours)
                end = max(end, answer["last_offset"] + 1)
        state = self._judge.demand("state")
        known = {row[0]: row for row in map(row_of, states.producers.values())}
        agree(f"{name}: producers", producers_in(state), known)
        agree(f"{name}: end offset", state["log_end_offset"], states.end_offset)
        self._judge.ask("close")

    def _open(self, name: str) -> None:
        shutil.rmtree(self._folder / f"{name}-0", ignore_errors=True)
        self._judge.demand(
            "open", now=T0, folder=str(self._folder / f"{name}-0"), config=UNBOUNDED, log_start_offset=0,
            recovery_point=0, max_transaction_timeout_ms=900_000, producer_id_expiration_ms=86_400_000,
            verification=self.rules.transaction_version is TransactionVersion.TV2, clean=True,
        )  # fmt: skip

    def _append(self, batch: bytes, place: int) -> dict[str, Any]:
        header = read_header(batch)
        if self.rules.origin is AppendOrigin.REPLICATION:
            return self._judge.ask("follow", records=batch, leader_epoch=0)
        version = self.rules.version_of_markers if header.is_control else self.rules.transaction_version
        origin = AppendOrigin.COORDINATOR if header.is_control else self.rules.origin
        guard = 0
        self._judge.demand("prune", producer_id=header.producer_id)  # a fold has no coordinator to ask
        if version is TransactionVersion.TV2 and header.is_transactional and not header.is_control:
            guard = place + 1
            asked = self._verify(header, guard)
            if "error" in asked:
                return asked
        return self._judge.ask(
            "append", records=batch, origin=origin.name, guard=guard, leader_epoch=0,
            transaction_version=list(TransactionVersion).index(version),
        )  # fmt: skip

    def _verify(self, header: RecordBatchHeader, guard: int) -> dict[str, Any]:
        return self._judge.ask(
            "verify", producer_id=header.producer_id, sequence=header.base_sequence,
            producer_epoch=header.producer_epoch, supports_epoch_bump=True, guard=guard,
        )  # fmt: skip


# -- readers -------------------------------------------------------------------------------------------------


def read_steps(random: Random, count: int) -> list[Step]:
    """Batches for Kafka's builder, each with what is changed in its bytes afterwards."""
    return [_read_step(random) for _ in range(count)]


def _read_step(random: Random) -> Step:
    records = [
        [
            T0 + random.randint(-5, 5),
            _maybe(random, random.randbytes(random.choice((0, 1, 8)))),
            _maybe(random, _value(random)),
            [
                [random.choice(("h", "ü", "")), _maybe(random, b"x")]
                for _ in range(random.choice((0, 0, 0, 2)))
            ],
        ]
        for _ in range(random.choice((1, 1, 2, 5, 40)))
    ]
    return {
        "records": records,
        "codec": random.choice(tuple(map(int, Codec))),
        "pid": random.choice((-1, 5)),
        "seq": random.choice((0, 7, 2**31 - 2)),
        "txn": random.random() < 0.3,
        "log_append": random.random() < 0.2,
        "flips": [[random.random(), random.randrange(256)] for _ in range(random.choice((0, 1, 1, 2, 6)))],
        "cut": random.choice((0, 0, 0, 0, 1, 3, 20)),
        "sealed": random.random() < 0.8,
    }


def _maybe(random: Random, data: bytes) -> str | None:
    return None if random.random() < 0.2 else data.hex()


def _value(random: Random) -> bytes:
    size = random.choice((0, 1, 10, 300, 5000))
    return random.choice((bytes(size), random.randbytes(min(size, 300)), b"order of apples, " * (size // 17)))


class ReadPlay:
    """Batches of Kafka's own builder, whole and changed, at Kafka's reader and at both of ours."""

    def __init__(self, judge: Judge, _: Path, config: Step) -> None:
        self._judge, self.batches = judge, 0
        del config

    def play(self, steps: list[Step]) -> None:
        """Every batch, whole and as it was changed."""
        for step in steps:
            built = self._build(step)
            self._compare(built)
            self._compare(changed(built, step))

    def _build(self, step: Step) -> bytes:
        made = {
            "magic": 2,
            "base_offset": 0,
            "codec": step["codec"],
            "timestamp_type": "LogAppendTime" if step["log_append"] else "CreateTime",
            "now": T0,
            "producer_id": step["pid"],
            "producer_epoch": 0 if step["pid"] >= 0 else -1,
            "base_sequence": step["seq"] if step["pid"] >= 0 else -1,
            "transactional": step["txn"] and step["pid"] >= 0,
            "leader_epoch": 3,
            "records": [
                [time, _bytes(key), _bytes(value), [[name, _bytes(content)] for name, content in headers]]
                for time, key, value, headers in step["records"]
            ],
        }
        return decoded(self._judge.demand("build", **{"with": made})["records"]) or b""

    def _compare(self, data: bytes) -> None:
        self.batches += 1
        answer = self._judge.ask("read", records=data)
        kafka = None if "error" in answer else [_kafka_batch(row) for row in answer["batches"]]
        agree(f"pure reader of {data.hex()}", kafka, _or_none(pure_reading, data))
        agree(f"kernel of {data.hex()}", kafka, _or_none(kernel_reading, data))


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text)


def changed(batch: bytes, step: Step) -> bytes:
    """The batch with bytes flipped and cut, and sealed again if the step says so."""
    header, payload = batch[:HEADER_SIZE], bytearray(batch[HEADER_SIZE : len(batch) - step["cut"]])
    for place, byte in step["flips"]:
        if payload:
            payload[int(place * len(payload))] = byte
    return seal(read_header(header), bytes(payload)) if step["sealed"] else header + bytes(payload)


def _or_none(read: Callable[[bytes], Any], data: bytes) -> Any:
    try:
        return read(data)
    except CorruptData:
        return None


Reading = list[tuple[int, int, list[tuple[Any, ...]]]]


def _kafka_batch(row: list[Any]) -> tuple[int, int, list[tuple[Any, ...]]]:
    return row[0], row[1], [(r[0], r[1], r[2], *map(decoded, r[3:5]), _headers(r[5])) for r in row[9]]


def _headers(found: list[list[Any]]) -> list[tuple[str, bytes | None]]:
    return [(name, decoded(content)) for name, content in found]


def pure_reading(data: bytes) -> Reading:
    """What the pure reader finds; a torn batch is not there yet."""
    found: Reading = []
    try:
        for batch in scan(data):
            records = [_record(record) for record in read_batch_records(data, batch)]
            assert isinstance(batch.header, RecordBatchHeader)
            found.append((batch.header.base_offset, batch.header.last_offset, records))
    except TornBatch:
        return found
    return found


def _record(record: LogRecord) -> tuple[Any, ...]:
    headers = [(header.key, header.value) for header in record.headers]
    return record.offset, record.timestamp, record.sequence, record.key, record.value, headers


def kernel_reading(data: bytes) -> Reading:
    """The same by compiled code."""
    scanned = scan_headers(data)
    error = ERROR_OF.get(scanned.stop.reason, TornBatch)
    if not issubclass(error, TornBatch):
        raise error(position=scanned.stop.position, expected="a batch", found="none")
    columns, rows = scanned.columns, list[Any]()
    for piece in decode_batches(data, columns):
        if piece.problems:
            raise piece.problems[0].error
        rows += piece.records.to_pylist()
    return [
        (
            int(columns.base_offset[number]),
            int(columns.base_offset[number]) + int(columns.last_offset_delta[number]),
            [_kernel_record(row) for row in rows if row["batch"] == number],
        )
        for number in range(columns.rows)
    ]


def _kernel_record(row: dict[str, Any]) -> tuple[Any, ...]:
    headers = [(header["key"], header["value"]) for header in row["headers"]]
    return row["offset"], row["timestamp"], row["sequence"], row["key"], row["value"], headers


# -- values of the coordinators ------------------------------------------------------------------------------

TRANSACTION_VALUE = "transaction.generated.TransactionLogValue"
TRANSACTION_KEY = "transaction.generated.TransactionLogKey"
OFFSET_VALUE = "group.generated.OffsetCommitValue"
OFFSET_KEY = "group.generated.OffsetCommitKey"


def value_steps(random: Random, count: int) -> list[Step]:
    """Keys and values of both coordinators, and bytes to flip in them."""
    return [
        {
            "kind": random.choice(
                (TRANSACTION_VALUE, TRANSACTION_VALUE, OFFSET_VALUE, OFFSET_KEY, TRANSACTION_KEY)
            ),
            "seed": random.randrange(2**32),
            "flips": [[random.random(), random.randrange(256)] for _ in range(random.choice((0, 1, 3)))],
            "cut": random.choice((0, 0, 0, 1, 5)),
        }
        for _ in range(count)
    ]


class ValuePlay:
    """Keys and values as our codecs write them, whole and changed, at Kafka's generated classes."""

    def __init__(self, judge: Judge, _: Path, config: Step) -> None:
        self._judge, self.batches = judge, 0
        del config

    def play(self, steps: list[Step]) -> None:
        """Every value: read and written alike; changed ones read alike."""
        for step in steps:
            data = _written(step["kind"], Random(step["seed"]))
            answer = self._judge.demand("decode", kind=step["kind"], bytes=data)
            agree(f"{step['kind']} {data.hex()}", answer["value"], _described(step["kind"], data))
            again = self._judge.demand(
                "encode", kind=step["kind"], version=answer["version"], value=answer["value"]
            )
            agree(f"{step['kind']} written", decoded(again["bytes"]), data)
            self._compare_changed(step, data)
            self.batches += 1

    def _compare_changed(self, step: Step, data: bytes) -> None:
        mutant = bytearray(data[: len(data) - step["cut"]])
        for place, byte in step["flips"] if len(mutant) > 2 else ():
            mutant[2 + int(place * (len(mutant) - 2))] = byte
        answer = self._judge.ask("decode", kind=step["kind"], bytes=bytes(mutant))
        try:
            ours = _described(step["kind"], bytes(mutant))
        except CorruptData:
            return  # we are stricter: bytes behind the value, unknown states, names that are not UTF-8
        agree(f"{step['kind']} changed to {mutant.hex()}", answer.get("value"), ours)


def _text(random: Random) -> str:
    return "".join(random.choice("abü✓-_.") for _ in range(random.choice((0, 1, 5, 200))))


def _written(kind: str, random: Random) -> bytes:
    def number(bits: int) -> int:
        return random.choice((-1, 0, 1, random.getrandbits(bits - 1), -(2 ** (bits - 1))))

    if kind == TRANSACTION_KEY:
        return coordinator_log.write_key(coordinator_log.TransactionLogKey(transactional_id=_text(random)))
    if kind == OFFSET_KEY:
        key = OffsetCommitKey(group=_text(random), topic=_text(random), partition=number(32), record_type=1)
        return consumer_offsets.write_key(key)
    if kind == OFFSET_VALUE:
        value = OffsetCommitValue(
            offset=number(64),
            metadata=_text(random),
            commit_timestamp=number(64),
            leader_epoch=number(32),
            topic_id=random.choice((None, random.randbytes(16))),
        )
        version = random.choice((0, 1, 2, 3, 4))
        return consumer_offsets.write_value(value, version)
    topics = tuple(
        TopicPartitions(
            topic=_text(random), partition_ids=tuple(number(32) for _ in range(random.randint(0, 3)))
        )
        for _ in range(random.randint(0, 3))
    )
    transaction = TransactionLogValue(
        producer_id=number(64),
        producer_epoch=number(16),
        transaction_timeout_ms=number(32),
        transaction_status=random.choice(tuple(TransactionState)),
        transaction_partitions=random.choice((None, topics)),
        transaction_last_update_timestamp_ms=number(64),
        transaction_start_timestamp_ms=number(64),
        previous_producer_id=number(64),
        next_producer_id=number(64),
        client_transaction_version=number(16),
    )
    return coordinator_log.write_value(transaction, random.choice((0, 1)))


def _described(kind: str, data: bytes) -> dict[str, Any]:
    """What our codec reads, with the names and in the form of Kafka's JSON."""
    if kind == TRANSACTION_KEY:
        key = coordinator_log.read_key(data)
        assert isinstance(key, coordinator_log.TransactionLogKey)
        return {"transactionalId": key.transactional_id}
    if kind == OFFSET_KEY:
        found = consumer_offsets.read_key(data)
        assert isinstance(found, OffsetCommitKey)
        return offset_key_json(found)
    if kind == OFFSET_VALUE:
        version = int.from_bytes(data[:2], signed=True)
        return offset_value_json(consumer_offsets.read_value(data), version)
    return transaction_value_json(coordinator_log.read_value(data))
