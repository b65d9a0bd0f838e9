"""Record a random workload of a real broker in the layout of `tests/recordings`: more truth for the replay.

`python -m tests.broker.recorder OUT --mode idem|tv1|tv2 --seed N --events N --restart clean --restart kill9`
"""

import argparse
import json
import random
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from spark_jobs.protocol.batch_builder import build_batch
from spark_jobs.protocol.record_batch import Codec
from spark_jobs.protocol.records import Header, Record
from spark_jobs.protocol.sequence import MAX_SEQUENCE, increment_sequence
from tests.broker import requests
from tests.broker.judge import KAFKA_VERSION, Broker
from tests.broker.requests import Event
from tests.broker.truth import create_topics, wait_for_leaders, write_truth
from tests.broker.wire import Connection

TOPICS = {"orc": (3, "CreateTime"), "lat": (1, "LogAppendTime")}
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
    """What a client would remember; transactional if it has an id."""

    pid: int
    epoch: int
    tid: str | None = None
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

    def __init__(self, out: Path, mode: str, seed: int) -> None:
        self.out, self.mode, self.seed = out, mode, seed
        self.random = random.Random(seed)
        self.broker = Broker(out / "broker")
        self.events: list[Event] = []
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

    # -- requests, retried where a client must

    def _settled(self, ask: Callable[[], Event], code: Callable[[Event], int], retry: set[int]) -> Event:
        for _ in range(TRIES):
            if code(event := ask()) not in retry:
                return self.keep(event)
            time.sleep(PAUSE_SECONDS)
        raise TimeoutError(f"still answered {code(event)} after {TRIES} tries: {event}")

    def init(self, tid: str | None, label: str) -> Event:
        version = 5 if self.mode == "tv2" else 4
        timeout = TXN_TIMEOUT_MS if tid else 60000
        return self._settled(
            lambda: requests.init_producer_id(
                self.connection, label=label, tid=tid, timeout=timeout, version=version
            ),
            lambda event: int(event["reply"]["error_code"]),
            COORDINATOR_BUSY,
        )

    def produce(self, parts: list[requests.Part], label: str, tid: str | None = None) -> Event:
        plain = self.random.choice([(8, -1), (8, 1), (9, -1), (9, 1), (11, -1), (11, 1)])
        version, acks = plain if tid is None else (12, -1) if self.mode == "tv2" else (8, -1)
        return self._settled(
            lambda: requests.produce(
                self.connection, parts, label=label, version=version, acks=acks, tid=tid
            ),
            lambda event: max(int(part["reply"]["error_code"]) for part in event["parts"]),
            LEADER_MOVING | COORDINATOR_BUSY,
        )

    def add(self, producer: Producer, tps: list[Tp]) -> None:
        assert producer.tid
        tid, pid, epoch = producer.tid, producer.pid, producer.epoch
        event = self._settled(
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
        event = self._settled(
            lambda: requests.end_txn(
                self.connection,
                label=label,
                tid=tid,
                pid=pid,
                epoch=sent_epoch,
                commit=commit,
                version=5 if self.mode == "tv2" else 3,
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
        """Wait until the coordinator has written its markers, and keep the state it then tells."""
        self._settled(
            lambda: requests.txn_state(self.connection, tid),
            lambda state: -1 if str(state["state"]).startswith("Prepare") else int(state["error_code"]),
            {-1} | COORDINATOR_BUSY,
        )

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
        event = self.produce([(*sent.tp, sent.raw)], label, tid)
        taken = bool(event["parts"][0]["reply"]["error_code"] == 0)
        if taken and not label.startswith("dup"):
            producer.next[sent.tp] = increment_sequence(sent.first, sent.count)
            producer.sent.append(sent)
            producer.open = producer.open or tid is not None
        return taken

    def any_tp(self) -> Tp:
        topic = self.random.choice(["orc", "orc", "orc", "lat"])
        return topic, self.random.randrange(TOPICS[topic][0])

    # -- what may happen

    def idempotent_action(self) -> None:
        rng = self.random
        producer = rng.choice([p for p in self.producers if p.tid is None])
        tp = self.any_tp()
        action = rng.choices(list(IDEMPOTENT), weights=[weight for weight, _ in IDEMPOTENT.values()])[0]
        IDEMPOTENT[action][1](self, producer, tp)

    def transactional_action(self) -> None:
        rng = self.random
        producer = rng.choice([p for p in self.producers if p.tid])
        tp = self.any_tp()
        action = rng.choices(list(TRANSACTIONAL), weights=[w for w, _ in TRANSACTIONAL.values()])[0]
        TRANSACTIONAL[action][1](self, producer, tp)

    def _await_coordinator(self, tid: str) -> None:
        for _ in range(TRIES):
            if requests.find_coordinator(self.connection, tid) == 0:
                return
            time.sleep(PAUSE_SECONDS)
        raise TimeoutError(f"no coordinator for {tid}")

    def run(self, events: int, restarts: list[str]) -> None:
        self.begin()
        for _ in range(4 if self.mode == "idem" else 2):
            reply = self.init(None, "idempotent")["reply"]
            self.producers.append(Producer(reply["producer_id"], reply["producer_epoch"]))
        for number in range(0 if self.mode == "idem" else 4):
            self._await_coordinator(f"tx{number}")
            reply = self.init(f"tx{number}", "txn-init")["reply"]
            self.producers.append(Producer(reply["producer_id"], reply["producer_epoch"], tid=f"tx{number}"))
        due = [(index + 1) * events // (len(restarts) + 1) for index in range(len(restarts))]
        while len(self.events) < events:
            if due and len(self.events) >= due[0]:
                due.pop(0)
                self.restart(restarts.pop(0))
            if self.mode == "idem" or self.random.random() < 0.15:
                self.idempotent_action()
            else:
                self.transactional_action()
        self.finish()

    def finish(self) -> None:
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


def _next(r: Recorder, p: Producer, tp: Tp) -> None:
    r.send(p, r.batch(p, tp), "next")


def _gap(r: Recorder, p: Producer, tp: Tp) -> None:
    first = increment_sequence(p.next.get(tp, 0), r.random.randrange(1, 50))
    r.send(p, r.batch(p, tp, first=first), "gap")


def _again(r: Recorder, p: Producer, tp: Tp) -> None:
    if p.sent:
        r.send(p, r.random.choice(p.sent[-12:]), "dup-any")


def _other_range(r: Recorder, p: Producer, tp: Tp) -> None:
    if p.sent:
        old = r.random.choice(p.sent[-6:])
        first = increment_sequence(old.first, r.random.randrange(2))
        count = max(1, old.count + r.random.choice([-1, 1]))
        r.send(p, r.batch(p, old.tp, first=first, count=count, epoch=old.epoch), "dup-other-last")


def _bump(r: Recorder, p: Producer, tp: Tp) -> None:
    p.epoch += 1
    p.next.clear()
    r.send(p, r.batch(p, tp, first=r.random.choice([0, 0, 3])), "epoch-bump")


def _zombie(r: Recorder, p: Producer, tp: Tp) -> None:
    if p.epoch > 0:
        r.send(p, r.batch(p, tp, epoch=r.random.randrange(p.epoch)), "dup-zombie")


def _fresh_near_max(r: Recorder, p: Producer, tp: Tp) -> None:
    reply = r.init(None, "idempotent")["reply"]
    fresh = Producer(reply["producer_id"], reply["producer_epoch"])
    fresh.next = {any_tp: MAX_SEQUENCE - r.random.randrange(6) for any_tp in [("orc", n) for n in range(3)]}
    r.producers.append(fresh)
    r.send(fresh, r.batch(fresh, ("orc", r.random.randrange(3))), "unknown-pid-near-max")


def _plain(r: Recorder, p: Producer, tp: Tp) -> None:
    r.produce([(*tp, r.batch(None, tp, first=-1).raw)], "non-idempotent")


def _malformed(r: Recorder, p: Producer, tp: Tp) -> None:
    raw = bytearray(r.batch(p, tp).raw)
    place = r.random.choice([17, 60, len(raw) - 1])
    raw[place] ^= 0x55
    r.produce([(*tp, bytes(raw))], "malformed-crc")


def _two_partitions(r: Recorder, p: Producer, tp: Tp) -> None:
    one, two = ("orc", r.random.randrange(3)), ("lat", 0)
    parts = [r.batch(p, one), r.batch(p, two, first=r.random.choice([p.next.get(two, 0), 999]))]
    event = r.produce([(*sent.tp, sent.raw) for sent in parts], "multi-partition")
    for sent, part in zip(parts, event["parts"], strict=True):
        if part["reply"]["error_code"] == 0:
            p.next[sent.tp] = increment_sequence(sent.first, sent.count)
            p.sent.append(sent)


Action = Callable[[Recorder, Producer, Tp], None]
IDEMPOTENT: dict[str, tuple[int, Action]] = {
    "next": (40, _next),
    "gap": (5, _gap),
    "again": (16, _again),
    "other range": (6, _other_range),
    "bump": (4, _bump),
    "zombie": (4, _zombie),
    "near max": (2, _fresh_near_max),
    "plain": (3, _plain),
    "malformed": (2, _malformed),
    "two partitions": (3, _two_partitions),
}


def _txn_next(r: Recorder, p: Producer, tp: Tp) -> None:
    if r.mode == "tv1" and tp not in p.added and r.random.random() < 0.9:
        r.add(p, [tp])
    r.send(p, r.batch(p, tp), "txn-next")


def _txn_end(r: Recorder, p: Producer, tp: Tp) -> None:
    commit = r.random.random() < 0.65
    r.end(p, commit, "commit" if commit else "abort")


def _end_again(r: Recorder, p: Producer, tp: Tp) -> None:
    epoch = p.epoch - 1 if r.mode == "tv2" and p.epoch > 0 and not p.open else p.epoch
    r.end(p, r.random.random() < 0.5, "end-again", epoch=epoch) if not p.open else None


def _fence(r: Recorder, p: Producer, tp: Tp) -> None:
    assert p.tid
    reply = r.init(p.tid, "fence")["reply"]
    old = Producer(p.pid, p.epoch, tid=p.tid, next=dict(p.next), sent=list(p.sent[-3:]))
    p.adopt(reply["producer_id"], reply["producer_epoch"])
    r.complete(p.tid)
    if r.random.random() < 0.6:
        r.send(old, r.batch(old, tp), "dup-zombie")


def _not_transactional(r: Recorder, p: Producer, tp: Tp) -> None:
    r.send(p, r.batch(p, tp, transactional=False), "nontxn-in-open-txn")


TRANSACTIONAL: dict[str, tuple[int, Action]] = {
    "next": (52, _txn_next),
    "end": (16, _txn_end),
    "again": (12, _again),
    "gap": (4, _gap),
    "end again": (3, _end_again),
    "fence": (4, _fence),
    "other range": (2, _other_range),
    "not transactional": (3, _not_transactional),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--mode", choices=["idem", "tv1", "tv2"], default="idem")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--events", type=int, default=400)
    parser.add_argument("--restart", action="append", default=[], choices=["clean", "kill9"])
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    recorder = Recorder(options.out.resolve(), options.mode, options.seed)
    try:
        recorder.run(options.events, options.restart)
    finally:
        recorder.broker.kill()
    print(f"{len(recorder.events)} events in {options.out}")


if __name__ == "__main__":
    main()
