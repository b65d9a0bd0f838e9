"""Random operations on one partition's log, applied to Kafka's `UnifiedLog` and to our model of it.

A step is a plain dict with relative numbers (how far back from the log end, how many milliseconds later), so
that a play still means something when steps are left out of it.
"""

import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

from spark_jobs.kafka.errors import CorruptData
from spark_jobs.kafka.formats.batch_builder import build_batch, seal
from spark_jobs.kafka.formats.checkpoints import read_leader_epochs
from spark_jobs.kafka.formats.control_record import ControlType, write_marker
from spark_jobs.kafka.formats.log_files import LEADER_EPOCH_CHECKPOINT
from spark_jobs.kafka.formats.record_batch import (
    CONTROL_FLAG,
    HEADER_SIZE,
    TIMESTAMP_TYPE_FLAG,
    Codec,
    TimestampType,
    read_header,
)
from spark_jobs.kafka.formats.records import Record
from spark_jobs.kafka.formats.snapshot import read_snapshot
from spark_jobs.kafka.producers.producer_state import AppendOrigin, ProducerStateEntry, TransactionVersion
from spark_jobs.sample.broker.log_loader import load
from spark_jobs.sample.broker.partition_log import AppendResult, PartitionLog
from spark_jobs.sample.broker.replica_log import CannotRoll, PartitionConfig
from tests.broker.kafka_classes import Judge, decoded

Step = dict[str, Any]
T0 = 1_700_000_000_000
NOTHING = "NONE"
MAX_SEQUENCE = 2**31 - 1
_VERSIONS = tuple(TransactionVersion)
_TIMESTAMP_TYPES = (TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME)
_FOLDER = "judged-0"


class Disagreement(AssertionError):
    """Kafka's classes and ours differ; the message says in what."""


def agree(what: str, kafka: object, ours: object) -> None:
    """Raises unless both are equal."""
    if kafka != ours:
        raise Disagreement(f"{what}: Kafka has {kafka!r}, we have {ours!r}")


# -- random steps --------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Producer:
    """A producer's own state."""

    pid: int
    epoch: int = 0
    next: int = 0
    sent: tuple[tuple[int, int], ...] = ()


class Scribe:
    """Writes steps as producers, zombies, coordinators, followers and operators could ask for them."""

    def __init__(self, random: Random, *, producers: int = 4) -> None:
        self._random, self._producers = random, [_Producer(pid=pid) for pid in range(producers)]

    def log_steps(self, count: int) -> list[Step]:
        """Steps of all kinds, mostly appends."""
        kinds = {
            self.append: 40, self.mark: 14, self.verify: 8, self.follow: 8, self.leader: 1, self.watermark: 8,
            self.upkeep: 5, self.cut: 2, self.restart: 3, self.expire: 2,
        }  # fmt: skip
        chosen = self._random.choices(list(kinds), weights=list(kinds.values()), k=count)
        return [{**make(), "ms": self._random.choice((0, 0, 1, 5, 60, 700))} for make in chosen]

    def append(self) -> Step:
        """A batch as a client sends it, or nearly so."""
        random = self._random
        mutation = random.choice((None,) * 24 + MUTATIONS)
        origin = random.choice(("CLIENT",) * 12 + ("COORDINATOR",))
        if origin == "COORDINATOR" and mutation == "control":
            mutation = None  # no coordinator writes control records without a type; Kafka fails on a null key
        return {
            **self._batch(),
            "do": "append",
            "guard": random.random() < 0.9,
            "mutation": mutation,
            "tail": random.choice((0,) * 12 + (1, 11, 12, 13, 16, 17, 30)) if origin == "CLIENT" else 0,
            "origin": origin,
        }

    def _batch(self) -> Step:
        random, producer = self._random, self._random.choice(self._producers)
        count = random.choice((1, 1, 1, 2, 3, 10))
        action = random.choices(ACTIONS, weights=WEIGHTS)[0]
        epoch, first = producer.epoch, producer.next
        if action == "repeat" and producer.sent:
            first, count = random.choice(producer.sent)
        elif action == "partial" and producer.sent:
            first, count = producer.sent[-1][0], count + 1
        elif action == "gap":
            first = _after(first, random.randint(1, 3))
        elif action == "bump":
            epoch = producer.epoch = min(producer.epoch + random.randint(1, 2), 2**15 - 1)
            first = random.choice((0, 0, 0, 5))
        elif action == "zombie":
            epoch = max(epoch - 1, 0)
        elif action == "anywhere":
            first = random.choice((0, 7, MAX_SEQUENCE - 2, MAX_SEQUENCE, random.randint(0, MAX_SEQUENCE)))
        if action in {"next", "bump", "anywhere"}:
            producer.sent, producer.next = (*producer.sent, (first, count))[-7:], _after(first, count)
        has_producer = action != "plain"
        return {
            "pid": producer.pid if has_producer else -1,
            "epoch": epoch if has_producer else -1,
            "seq": first if has_producer else -1,
            "count": count,
            "txn": has_producer and random.random() < 0.55,
            "codec": random.choice((0, 0, 0, 0, *map(int, Codec))),
            "age": random.choice((0, 0, 0, 0, 3, 500, 100_000)),
            "key": random.random() < 0.97,
            "tv": random.choice((0, 1, 2, 2)),
        }

    def mark(self) -> Step:
        """A marker as a coordinator sends it, perhaps a late one."""
        random, producer = self._random, self._random.choice(self._producers)
        epoch = min(producer.epoch + random.choice((0, 0, 1, 1, -1)), 2**15 - 1)
        if random.random() < 0.03:
            epoch = 2**15 - 1
        producer.epoch = max(producer.epoch, epoch)
        producer.next = random.choice((producer.next, 0))
        return {
            "do": "mark",
            "pid": producer.pid,
            "epoch": max(epoch, 0),
            "coordinator": random.choice((3, 3, 3, 3, 4, 2)),
            "commit": random.random() < 0.5,
            "tv": random.choice((0, 1, 2, 2)),
        }

    def verify(self) -> Step:
        """A leader asks the coordinator before a transaction begins."""
        producer = self._random.choice(self._producers)
        step = {
            "do": "verify",
            "pid": producer.pid,
            "epoch": min(producer.epoch + self._random.choice((0, 0, 0, 1)), 2**15 - 1),
        }
        return {**step, "seq": producer.next, "bump": self._random.random() < 0.5}

    def follow(self) -> Step:
        """A fetch of a follower's: batches and markers with offsets, not one inside another."""
        random = self._random
        rows = [
            {
                **(self.mark() if random.random() < 0.3 else self._batch()),
                "gap": random.choice((0,) * 30 + (1, 3, 2**31 - 1)),
                "leader": random.choice((0,) * 15 + (1,)),
                "flip": random.random() < 0.03,
            }
            for _ in range(random.randint(1, 4))
        ]
        rows[0]["gap"] = random.choice((rows[0]["gap"],) * 20 + (-1,))
        return {"do": "follow", "rows": rows, "torn": random.choice((0, 0, 0, 5, 14, 40))}

    def leader(self) -> Step:
        return {"do": "leader"}

    def watermark(self) -> Step:
        return {"do": "high_watermark", "back": self._random.choice((0, 0, 0, 1, 5))}

    def upkeep(self) -> Step:
        kind = self._random.choice(("roll", "snapshot", "delete_records", "delete_segments"))
        return {"do": kind, "back": self._random.choice((0, 1, 5, 20))}

    def cut(self) -> Step:
        kind = self._random.choice(("truncate", "truncate", "truncate", "truncate_fully"))
        return {"do": kind, "back": self._random.choice((0, 1, 2, 5, 20, 100))}

    def restart(self) -> Step:
        kind = self._random.choice(("close", "crash", "crash"))
        return {"do": kind, "recovery": self._random.choice((0, 0, 1))}

    def expire(self) -> Step:
        """The check for expired producers, around the boundary."""
        return {"do": "expire", "edge": self._random.choice((-1, 0, 0, 1))}


ACTIONS = ("next", "repeat", "partial", "gap", "bump", "zombie", "anywhere", "plain")
WEIGHTS = (50, 12, 3, 5, 4, 3, 3, 6)
MUTATIONS = ("offset", "count", "crc", "control", "sequence", "log append time", "compressed offsets")


def _after(sequence: int, count: int) -> int:
    return (sequence + count) % (MAX_SEQUENCE + 1)


def random_config(random: Random) -> Step:
    """Settings of the topic and its broker."""
    return {
        "verification": random.random() < 0.5,
        "segment_bytes": random.choice((400, 1500, 1 << 20)),
        "segment_ms": random.choice((500, 10**9)),
        "index_interval": random.choice((1, 200, 4096)),
        "log_append_time": random.random() < 0.2,
        "compacted": random.random() < 0.2,
        "expiration": 10_000,
    }


# -- bytes ---------------------------------------------------------------------------------------------------


def data_of(step: Step, now: int, *, at: int = 0, leader: int = 0) -> bytes:
    """The batch of a step."""
    keys = [b"k"] * step["count"]
    records = [Record(offset_delta=n, key=key, value=b"v%d" % n) for n, key in enumerate(keys)]
    if not step["key"]:
        records[-1] = replace(records[-1], key=None)
    return build_batch(
        records=records,
        base_timestamp=now - step["age"],
        base_offset=at,
        partition_leader_epoch=leader,
        codec=Codec(step["codec"]),
        producer_id=step["pid"],
        producer_epoch=step["epoch"],
        base_sequence=step["seq"],
        is_transactional=step["txn"],
    )


def marker_of(step: Step, now: int, *, at: int = 0, leader: int = 0) -> bytes:
    """The marker of a step."""
    return write_marker(
        base_offset=at,
        partition_leader_epoch=leader,
        timestamp=now,
        producer_id=step["pid"],
        producer_epoch=step["epoch"],
        control_type=ControlType.COMMIT if step["commit"] else ControlType.ABORT,
        coordinator_epoch=step["coordinator"],
    )


def mutated(batch: bytes, mutation: str | None) -> bytes:
    """The batch with one thing wrong, sealed again but for its checksum."""
    header, payload = read_header(batch), batch[HEADER_SIZE:]
    if mutation == "crc":
        return batch[:-1] + bytes((batch[-1] ^ 1,))
    if mutation == "compressed offsets":
        return build_batch(
            records=[Record(offset_delta=n, key=b"k") for n in (0, 2, 1)],
            base_timestamp=header.base_timestamp,
            last_offset_delta=2,
            codec=Codec.GZIP,
        )
    changes: dict[str | None, dict[str, int]] = {
        "offset": {"base_offset": 1},
        "count": {"record_count": header.record_count + 1},
        "control": {"attributes": header.attributes | CONTROL_FLAG},
        "sequence": {"base_sequence": -1},
        "log append time": {"attributes": header.attributes | TIMESTAMP_TYPE_FLAG},
    }
    return seal(replace(header, **changes[mutation]), payload) if mutation in changes else batch


# -- playing -------------------------------------------------------------------------------------------------


class LogPlay:
    """One partition, at Kafka's and as our model; `batches` counts those that both have judged."""

    def __init__(self, judge: Judge, folder: Path, config: Step) -> None:
        self._judge, self._folder = judge, folder / _FOLDER
        shutil.rmtree(self._folder, ignore_errors=True)
        self._settings = config
        self.config = PartitionConfig(
            segment_bytes=config["segment_bytes"],
            segment_ms=config["segment_ms"],
            index_interval_bytes=config["index_interval"],
            message_timestamp_type=_TIMESTAMP_TYPES[config["log_append_time"]],
            is_compacted=config["compacted"],
            transaction_partition_verification_enable=config["verification"],
            producer_id_expiration_ms=config["expiration"],
        )
        self.now, self.batches, self._guards = T0, 0, dict[int, int]()
        self._open(clean=True, recovery_point=0, log_start_offset=0)
        self.log = PartitionLog(self.config, now=self.now)

    def play(self, steps: list[Step]) -> None:
        """Applies all steps; raises on any difference."""
        for number, step in enumerate(steps):
            self.now += step["ms"]
            try:
                getattr(self, f"_{step['do']}")(step)
                self._compare_states()
            except Disagreement as found:
                raise Disagreement(f"step {number}, {step}: {found}") from None
            if self.log.segments[-1].base_offset > self.log.log_end_offset:
                return  # a refused gap has rolled too far: a broker gives up such a replica
        self._close({"recovery": 0})

    def _ask(self, action: str, **request: Any) -> dict[str, Any]:
        return self._judge.ask(action, now=self.now, **request)

    def _open(self, *, clean: bool, recovery_point: int, log_start_offset: int) -> None:
        self._judge.demand(
            "open",
            now=self.now,
            folder=str(self._folder),
            config=self._kafka_config(),
            log_start_offset=log_start_offset,
            recovery_point=recovery_point,
            max_transaction_timeout_ms=900_000,
            producer_id_expiration_ms=self.config.producer_id_expiration_ms,
            verification=self.config.transaction_partition_verification_enable,
            clean=clean,
        )

    def _kafka_config(self) -> dict[str, str]:
        return {
            "internal.segment.bytes": str(self.config.segment_bytes),
            "segment.ms": str(self.config.segment_ms),
            "index.interval.bytes": str(self.config.index_interval_bytes),
            "message.timestamp.type": "LogAppendTime" if self._settings["log_append_time"] else "CreateTime",
            "cleanup.policy": "compact" if self._settings["compacted"] else "delete",
            "retention.ms": "-1",
            "segment.jitter.ms": "0",
            "segment.index.bytes": "8192",
        }

    def _append(self, step: Step) -> None:
        batch = mutated(data_of(step, self.now), step["mutation"]) + bytes(step["tail"])
        guard = self._guards.get(step["pid"], 0) if step["guard"] else 0
        self._append_both(batch, AppendOrigin[step["origin"]], step["tv"], guard)

    def _mark(self, step: Step) -> None:
        self._append_both(marker_of(step, self.now), AppendOrigin.COORDINATOR, step["tv"], 0)

    def _append_both(self, batch: bytes, origin: AppendOrigin, tv: int, guard: int) -> None:
        answer = self._ask(
            "append", records=batch, origin=origin.name, guard=guard, leader_epoch=self.log.leader_epoch,
            transaction_version=tv,
        )  # fmt: skip
        result = self.log.append(
            batch,
            now=self.now,
            origin=origin,
            transaction_version=_VERSIONS[tv],
            verification_guard=guard,
        )
        self.batches += 1
        agree("error", answer.get("error", NOTHING), result.kafka_error.name)
        if "error" not in answer:
            ours = (result.base_offset, result.decision.last_offset, result.log_append_time)
            agree(
                "offsets", tuple(answer[n] for n in ("base_offset", "last_offset", "log_append_time")), ours
            )

    def _follow(self, step: Step) -> None:
        offset, records = self.log.log_end_offset, b""
        for row in step["rows"]:
            offset, make = max(offset + row["gap"], 0), marker_of if row.get("do") == "mark" else data_of
            leader = self.log.leader_epoch + row["leader"]
            batch = make(row, self.now, at=offset, leader=leader)
            records += batch[:-1] + bytes((batch[-1] ^ row["flip"],))
            offset += row.get("count", 1)
        torn = records[: step["torn"]]
        answer = self._ask("follow", records=records + torn, leader_epoch=self.log.leader_epoch)
        result = self.log.append_as_follower(records + torn, now=self.now)
        self.batches += len(step["rows"])
        agree("failure", "error" in answer, failed(result))

    def _verify(self, step: Step) -> None:
        if not self.config.transaction_partition_verification_enable:
            return
        ours = self.log.maybe_start_transaction_verification(
            producer_id=step["pid"],
            sequence=step["seq"],
            producer_epoch=step["epoch"],
            supports_epoch_bump=step["bump"],
            now=self.now,
        )
        answer = self._ask(
            "verify", producer_id=step["pid"], sequence=step["seq"], producer_epoch=step["epoch"],
            supports_epoch_bump=step["bump"], guard=ours.guard,
        )  # fmt: skip
        agree("fenced", "error" in answer, ours.is_fenced)
        self._guards[step["pid"]] = ours.guard
        if not ours.is_fenced:
            agree("no guard", answer["sentinel"], ours.guard == 0)

    def _leader(self, _: Step) -> None:
        epoch = self.log.leader_epoch + 1
        self._ask("leader", epoch=epoch)
        self.log.become_leader(epoch)

    def _high_watermark(self, step: Step) -> None:
        offset = max(self.log.log_end_offset - step["back"], self.log.high_watermark)
        self._ask("high_watermark", offset=offset)
        self.log.update_high_watermark(offset)

    def _roll(self, _: Step) -> None:
        answer = self._ask("roll")
        try:
            self.log.roll(self.now)
        except CannotRoll:
            agree("no roll", "error" in answer, True)

    def _snapshot(self, _: Step) -> None:
        self._ask("snapshot")
        self.log.manager.take_snapshot()

    def _delete_records(self, step: Step) -> None:
        offset = max(self.log.high_watermark - step["back"], self.log.log_start_offset)
        self._ask("delete_records", offset=offset)
        self.log.delete_records(offset)

    def _delete_segments(self, _: Step) -> None:
        if not self._settings["compacted"]:
            self._ask("delete_segments")
            self.log.delete_old_segments()

    def _truncate(self, step: Step) -> None:
        offset = max(self.log.log_end_offset - step["back"], self.log.log_start_offset)
        self._ask("truncate", offset=offset)
        self.log.truncate_to(offset, now=self.now)
        # A broker looks for its first unstable offset at the next fetch, which brings the high watermark.
        self._high_watermark({"back": self.log.log_end_offset})

    def _truncate_fully(self, step: Step) -> None:
        offset = self.log.log_end_offset + step["back"]
        self._ask("truncate_fully", offset=offset)
        self.log.truncate_fully_and_start_at(offset, now=self.now)

    def _expire(self, step: Step) -> None:
        known = [entry.last_timestamp for entry in self.log.manager.producers.values()]
        if known:
            self.now = max(self.now, min(known) + self.config.producer_id_expiration_ms + step["edge"])
        self._ask("expire")
        self.log.manager.remove_expired_producers(self.now)

    def _close(self, step: Step) -> None:
        self._ask("close")
        self.log.close()
        self._reload(step, clean=True)

    def _crash(self, step: Step) -> None:
        self._ask("crash")
        self._reload(step, clean=False)

    def _reload(self, step: Step, *, clean: bool) -> None:
        """Indexes are compared after a clean end: open ones have entries that no longer count."""
        self._compare_files(with_indexes=clean)
        start, epoch = self.log.log_start_offset, self.log.leader_epoch
        recovery_point = self.log.log_end_offset if step["recovery"] else 0
        files = self.log.files()
        self._guards.clear()
        self._open(clean=clean, recovery_point=recovery_point, log_start_offset=start)
        self.log = load(
            files, clean=clean, now=self.now, config=self.config, recovery_point=recovery_point,
            log_start_offset=start, leader_epoch=epoch,
        )  # fmt: skip
        self._compare_files(with_indexes=False)

    # -- comparing -------------------------------------------------------------------------------------------

    def _compare_states(self) -> None:
        state, log = self._judge.demand("state"), self.log
        first_unstable = log.first_unstable_offset
        ours = {
            "log_start_offset": log.log_start_offset,
            "log_end_offset": log.log_end_offset,
            "high_watermark": log.high_watermark,
            "last_stable_offset": log.last_stable_offset,
            "first_unstable_offset": -1 if first_unstable is None else first_unstable,
            "segments": [segment.base_offset for segment in log.segments],
        }
        agree("state", {name: state[name] for name in ours}, ours)
        agree(
            "producers",
            producers_in(state),
            {row[0]: row for row in map(row_of, log.manager.producers.values())},
        )

    def _compare_files(self, *, with_indexes: bool) -> None:
        found = self._judge.demand("files", folder=str(self._folder))["files"]
        unread = (
            (".deleted", ".metadata") if with_indexes else (".deleted", ".metadata", ".index", ".timeindex")
        )
        kafka = comparable({name: decoded(data) or b"" for name, data in found.items()}, unread)
        ours = comparable(self.log.files(), unread)
        agree("files", sorted(kafka), sorted(ours))
        for name, content in kafka.items():
            agree(name, content, ours[name])


def failed(result: AppendResult) -> bool:
    return result.kafka_error.name != NOTHING


def producers_in(state: dict[str, Any]) -> dict[int, list[Any]]:
    """The producers in a judge's state, by id."""
    return {row[0]: row for row in state["producers"]}


def row_of(entry: ProducerStateEntry) -> list[Any]:
    """A producer as the judge describes it."""
    first = entry.current_txn_first_offset
    return [
        entry.producer_id,
        entry.producer_epoch,
        entry.coordinator_epoch,
        entry.last_timestamp,
        -1 if first is None else first,
        [
            [batch.last_sequence, batch.last_offset, batch.offset_delta, batch.timestamp]
            for batch in entry.batches
        ],
    ]


def comparable(files: dict[str, bytes], unread: tuple[str, ...]) -> dict[str, object]:
    """The content of files, without deleted ones, empty ones and preallocated space."""
    return {
        name: content
        for name, data in files.items()
        if not name.endswith(unread) and (content := _content(name, data))
    }


def _content(name: str, data: bytes) -> object:
    if name.endswith(".snapshot"):
        return _snapshot(data)
    if name == LEADER_EPOCH_CHECKPOINT:
        return read_leader_epochs(data)
    if name.endswith((".index", ".timeindex")):
        return data.rstrip(b"\0")
    return data


def _snapshot(data: bytes) -> object:
    try:
        return ("snapshot", sorted(read_snapshot(data), key=lambda entry: entry.producer_id))
    except CorruptData:
        return data
