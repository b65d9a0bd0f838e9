"""A broker and a raw client that sends one request at a time and records every reply."""

import json
import random
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from spark_jobs.kafka.formats.batch_builder import build_batch
from spark_jobs.kafka.formats.record_batch import Codec
from spark_jobs.kafka.formats.records import Header, Record
from spark_jobs.kafka.producers.sequence import increment_sequence
from tests.broker import requests
from tests.broker.admin import offsets
from tests.broker.captures import LOG_ENDS
from tests.broker.judge import KAFKA_VERSION, Broker
from tests.broker.requests import Event
from tests.broker.truth import create_topics, wait_for_leaders, write_truth
from tests.broker.wire import Connection

TOPICS = {"orc": (3, "CreateTime"), "lat": (1, "LogAppendTime")}
PARTITIONS = [(topic, number) for topic, (count, _) in TOPICS.items() for number in range(count)]
SEGMENT_BYTES = 8192
COORDINATOR_BUSY = {14, 15, 16, 51}
LEADER_MOVING = {3, 5, 6, 9, 19, 20}
TXN_TIMEOUT_MS = 3_000_000
TRIES, PAUSE_SECONDS = 600, 0.05
Tp = tuple[str, int]


@dataclass
class Sent:
    """A batch as it went out, so that it can be sent again."""

    tp: Tp
    raw: bytes
    epoch: int
    first: int
    count: int


@dataclass
class Producer:
    """A client's own state; transactional if it has an id."""

    pid: int
    epoch: int
    tid: str | None = None
    is_tv2: bool = False
    next: dict[Tp, int] = field(default_factory=dict)
    sent: list[Sent] = field(default_factory=list)
    added: set[Tp] = field(default_factory=set)
    open: bool = False

    def adopt(self, pid: int, epoch: int) -> None:
        if (pid, epoch) != (self.pid, self.epoch):
            self.next.clear()
        self.pid, self.epoch = pid, epoch
        self.added.clear()
        self.open = False


class Recorder:
    """Sends random requests one at a time and keeps what was answered."""

    def __init__(self, out: Path, mode: str, seed: int, *, txn_timeout_ms: int = TXN_TIMEOUT_MS) -> None:
        self.out, self.mode, self.seed, self.txn_timeout_ms = out, mode, seed, txn_timeout_ms
        self.random = random.Random(seed)
        self.broker = Broker(out / "broker")
        self.events: list[Event] = []
        self.log_ends: dict[int, list[tuple[str, int, int]]] = {}
        self.connection: Connection
        self.producers: list[Producer] = []

    # -- the broker's life

    def begin(self) -> None:
        self.broker.format()
        self.broker.start()
        create_topics(self.broker.address, TOPICS, SEGMENT_BYTES)
        self.connection = Connection(self.broker.port)
        topics = {name: {"partitions": n, "timestamp_type": kind} for name, (n, kind) in TOPICS.items()}
        meta = {"seed": self.seed, "mode": self.mode, "kafka": KAFKA_VERSION, "topics": topics}
        self.keep({"t": "meta", **meta, "segment_bytes": SEGMENT_BYTES})

    def restart(self, mode: str) -> None:
        self.connection.close()
        self.broker.kill() if mode == "kill9" else self.broker.stop()
        self.broker.start()
        wait_for_leaders(self.broker.address)
        self.connection = Connection(self.broker.port)
        self.keep({"t": "restart", "mode": mode})

    def keep(self, event: Event) -> Event:
        self.events.append({"i": len(self.events), **event})
        return event

    def note_log_ends(self) -> None:
        """Markers may have been written since the last event: the log ends show which."""
        ends = offsets(self.connection, PARTITIONS)
        self.log_ends[len(self.events) - 1] = [(*tp, end) for tp, end in ends.items()]

    # -- requests, retried where a client must

    def _retried(self, ask: Callable[[], Event], code: Callable[[Event], int], retry: set[int]) -> Event:
        for _ in range(TRIES):
            if code(event := ask()) not in retry:
                return self.keep(event)
            time.sleep(PAUSE_SECONDS)
        raise TimeoutError(f"still answered {code(event)} after {TRIES} tries: {event}")

    def init(self, tid: str | None, label: str, *, is_tv2: bool = False) -> Event:
        version = 5 if is_tv2 else 4
        timeout = self.txn_timeout_ms if tid else 60000
        return self._retried(
            lambda: requests.init_producer_id(
                self.connection, label=label, tid=tid, timeout=timeout, version=version
            ),
            lambda event: int(event["reply"]["error_code"]),
            COORDINATOR_BUSY,
        )

    def produce(
        self, parts: list[requests.Part], label: str, tid: str | None = None, *, is_tv2: bool = False
    ) -> Event:
        plain = self.random.choice([(8, -1), (8, 1), (9, -1), (9, 1), (11, -1), (11, 1)])
        version, acks = plain if tid is None else (12, -1) if is_tv2 else (8, -1)
        return self._retried(
            lambda: requests.produce(
                self.connection, parts, label=label, version=version, acks=acks, tid=tid
            ),
            lambda event: max(int(part["reply"]["error_code"]) for part in event["parts"]),
            LEADER_MOVING | COORDINATOR_BUSY,
        )

    def add(self, producer: Producer, tps: list[Tp]) -> None:
        assert producer.tid
        tid, pid, epoch = producer.tid, producer.pid, producer.epoch
        event = self._retried(
            lambda: requests.add_partitions(
                self.connection, label="begin", tid=tid, pid=pid, epoch=epoch, tps=tps
            ),
            lambda event: int(event["reply"][0]["error_code"]),
            COORDINATOR_BUSY | LEADER_MOVING,
        )
        if event["reply"][0]["error_code"] == 0:
            producer.added |= set(tps)
            producer.open = True

    def end(self, producer: Producer, commit: bool, label: str, epoch: int | None = None) -> Event:
        assert producer.tid
        tid, pid = producer.tid, producer.pid
        sent_epoch = producer.epoch if epoch is None else epoch
        version = 5 if producer.is_tv2 else 3
        event = self._retried(
            lambda: requests.end_txn(
                self.connection,
                label=label,
                tid=tid,
                pid=pid,
                epoch=sent_epoch,
                commit=commit,
                version=version,
            ),
            lambda event: int(event["reply"]["error_code"]),
            COORDINATOR_BUSY,
        )
        if event["reply"]["error_code"] == 0:
            reply = event["reply"]
            if label in {"commit", "abort"}:
                producer.adopt(reply.get("producer_id", pid), reply.get("producer_epoch", sent_epoch))
            self.complete(tid)
        return event

    def complete(self, tid: str) -> None:
        """Waits until the coordinator has written its markers, and records the state that it then reports."""
        self._retried(
            lambda: requests.txn_state(self.connection, tid),
            lambda state: -1 if str(state["state"]).startswith("Prepare") else int(state["error_code"]),
            {-1} | COORDINATOR_BUSY,
        )
        self.note_log_ends()

    # -- batches

    def batch(self, producer: Producer | None, tp: Tp, **changes: Any) -> Sent:
        rng = self.random
        count = int(changes.get("count", rng.choice([1, 1, 2, 3, 5])))
        now = int(time.time() * 1000)
        records = [self._record(index) for index in range(count)]
        pid, epoch = (producer.pid, producer.epoch) if producer else (-1, -1)
        first = int(changes.get("first", producer.next.get(tp, 0) if producer else -1))
        epoch = int(changes.get("epoch", epoch))
        raw = build_batch(
            records=records,
            codec=rng.choice(list(Codec)),
            base_timestamp=now,
            producer_id=int(changes.get("pid", pid)),
            producer_epoch=epoch,
            base_sequence=first,
            is_transactional=bool(changes.get("transactional", bool(producer and producer.tid))),
        )
        return Sent(tp=tp, raw=raw, epoch=epoch, first=first, count=count)

    def _record(self, index: int) -> Record:
        rng = self.random
        text = "".join(rng.choice("abcdefgh ") for _ in range(rng.randrange(1, 60))).encode()
        headers = tuple(Header(key="h", value=rng.choice([None, b"", b"x"])) for _ in range(rng.randrange(3)))
        return Record(
            offset_delta=index,
            timestamp_delta=index,
            key=rng.choice([None, b"", b"k%d" % rng.randrange(30)]),
            value=rng.choice([None, text, text, text]),
            headers=headers,
        )

    def send(self, producer: Producer, sent: Sent, label: str) -> bool:
        tid = producer.tid if producer.tid and label != "nontxn-in-open-txn" else None
        event = self.produce([(*sent.tp, sent.raw)], label, tid, is_tv2=producer.is_tv2)
        taken = bool(event["parts"][0]["reply"]["error_code"] == 0)
        if taken and not label.startswith("dup"):
            producer.next[sent.tp] = increment_sequence(sent.first, sent.count)
            producer.sent.append(sent)
            producer.open = producer.open or tid is not None
        return taken

    def any_tp(self) -> Tp:
        topic = self.random.choice(["orc", "orc", "orc", "lat"])
        return topic, self.random.randrange(TOPICS[topic][0])

    # -- producers

    def add_producers(self) -> None:
        """Idempotent ones, and transactional ones unless the mode has none."""
        for _ in range(4 if self.mode == "idem" else 2):
            reply = self.init(None, "idempotent")["reply"]
            self.producers.append(Producer(reply["producer_id"], reply["producer_epoch"]))
        for number in range(0 if self.mode == "idem" else 4):
            is_tv2 = self.mode == "tv2" or (self.mode == "mixed" and number % 2 == 0)
            self._await_coordinator(f"tx{number}")
            reply = self.init(f"tx{number}", "txn-init", is_tv2=is_tv2)["reply"]
            pid, epoch = reply["producer_id"], reply["producer_epoch"]
            self.producers.append(Producer(pid, epoch, tid=f"tx{number}", is_tv2=is_tv2))

    def _await_coordinator(self, tid: str) -> None:
        for _ in range(TRIES):
            if requests.find_coordinator(self.connection, tid) == 0:
                return
            time.sleep(PAUSE_SECONDS)
        raise TimeoutError(f"no coordinator for {tid}")

    def finish(self) -> None:
        self.note_log_ends()
        still_open = [
            {"tid": p.tid, "pid": p.pid, "epoch": p.epoch} for p in self.producers if p.tid and p.open
        ]
        self.keep({"t": "open_at_end", "txns": still_open})
        write_truth(self.broker.address, TOPICS, self.out)
        self.connection.close()
        self.broker.stop()
        shutil.copytree(self.broker.data, self.out / "data", dirs_exist_ok=True)
        lines = "".join(json.dumps(event) + "\n" for event in self.events)
        (self.out / "replies.jsonl").write_text(lines)
        (self.out / LOG_ENDS).write_text(json.dumps(self.log_ends))
