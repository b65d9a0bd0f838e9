"""Random actions of a recording: valid and invalid steps of idempotent and transactional producers."""

from collections.abc import Callable

from spark_jobs.kafka.producers.sequence import MAX_SEQUENCE, increment_sequence
from tests.broker.odd_batches import DAMAGES, HEADERS, odd_batch
from tests.broker.session import Producer, Recorder, Tp

TRANSACTIONAL_SHARE = 0.85
NEEDS_A_TRANSACTIONAL_REQUEST = {"control", "transactional"}
"""Odd headers that make the whole request invalid: a broker answers without reading the log."""
Action = Callable[[Recorder, Producer, Tp], None]


def act(recorder: Recorder) -> None:
    """One random action of one random producer."""
    rng = recorder.random
    is_idempotent = recorder.mode == "idem" or rng.random() > TRANSACTIONAL_SHARE
    actions = IDEMPOTENT if is_idempotent else TRANSACTIONAL
    producer = rng.choice([p for p in recorder.producers if (p.tid is None) == is_idempotent])
    tp = recorder.any_tp()
    name = rng.choices(list(actions), weights=[weight for weight, _ in actions.values()])[0]
    actions[name][1](recorder, producer, tp)


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


def _odd(r: Recorder, p: Producer, tp: Tp) -> None:
    kind = r.random.choice(sorted({*HEADERS, *DAMAGES} - NEEDS_A_TRANSACTIONAL_REQUEST))
    event = r.produce([(*tp, odd_batch(r.batch(p, tp).raw, kind))], f"odd-{kind}")
    if event["parts"][0]["reply"]["error_code"] == 0:
        p.next.clear()
        p.epoch += 1


def _two_partitions(r: Recorder, p: Producer, tp: Tp) -> None:
    one, two = ("orc", r.random.randrange(3)), ("lat", 0)
    parts = [r.batch(p, one), r.batch(p, two, first=r.random.choice([p.next.get(two, 0), 999]))]
    event = r.produce([(*sent.tp, sent.raw) for sent in parts], "multi-partition")
    for sent, part in zip(parts, event["parts"], strict=True):
        if part["reply"]["error_code"] == 0:
            p.next[sent.tp] = increment_sequence(sent.first, sent.count)
            p.sent.append(sent)


IDEMPOTENT: dict[str, tuple[int, Action]] = {
    "next": (40, _next),
    "gap": (5, _gap),
    "again": (16, _again),
    "other range": (6, _other_range),
    "bump": (4, _bump),
    "zombie": (4, _zombie),
    "near max": (2, _fresh_near_max),
    "plain": (3, _plain),
    "odd": (6, _odd),
    "two partitions": (3, _two_partitions),
}


def _txn_next(r: Recorder, p: Producer, tp: Tp) -> None:
    if not p.is_tv2 and tp not in p.added and r.random.random() < 0.9:
        r.add(p, [tp])
    r.send(p, r.batch(p, tp), "txn-next")


def _txn_end(r: Recorder, p: Producer, tp: Tp) -> None:
    commit = r.random.random() < 0.65
    r.end(p, commit, "commit" if commit else "abort")


def _end_again(r: Recorder, p: Producer, tp: Tp) -> None:
    epoch = p.epoch - 1 if p.is_tv2 and p.epoch > 0 and not p.open else p.epoch
    r.end(p, r.random.random() < 0.5, "end-again", epoch=epoch) if not p.open else None


def _fence(r: Recorder, p: Producer, tp: Tp) -> None:
    assert p.tid
    reply = r.init(p.tid, "fence", is_tv2=p.is_tv2)["reply"]
    old = Producer(p.pid, p.epoch, tid=p.tid, is_tv2=p.is_tv2, next=dict(p.next), sent=list(p.sent[-3:]))
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
