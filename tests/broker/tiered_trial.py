"""A broker with tiered storage, killed in the middle: tier and tail are what its consumers read.

Each topic is a workload of its own seed: transactions that span tiny segments, some aborted, beside an
idempotent producer. Local retention deletes what is uploaded, so that a consumer reads through the tier. The
tail is a copy of the log directory, or is fetched from the broker. With `AIVEN_JARS`, a folder that has the
jars of Aiven's plugin (core, commons, storage core and filesystem) and what they need, that plugin uploads.
"""

import json
import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from random import Random
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.cimpl import NewTopic

from spark_jobs.config.load import load_settings
from spark_jobs.flow import Step
from spark_jobs.lake.layout import step_key
from spark_jobs.lake.run_folder import MESSAGES
from spark_jobs.lake.stores import open_lake
from spark_jobs.run import RunOutcome
from tests.broker.beliefs import differing_records
from tests.broker.clients.librdkafka import QUIET
from tests.broker.clients.workplace import CODECS
from tests.broker.copies import copy_live
from tests.broker.judge import INTERNAL_PARTITIONS, Broker, tiered_jars
from tests.broker.life import await_decisions
from tests.broker.lives import lived
from tests.broker.promises import expect_none
from tests.broker.runs import CONFIG, Lake, today
from tests.broker.truth import admin, read_truth, wait_for_leaders
from tests.broker.wire import Connection
from tests.sources.tiers import private_key

TOPICS, PARTITIONS = 10, 2
SEGMENT_BYTES = 4096
TIER = "kafka-tiered-storage"
AIVEN_JARS = "AIVEN_JARS"
KEY_ID, KEY_FILE, KEY_PREFIX = "key-1", "private.pem", "in/all-"
LIVE = "live"
STEPS = 60
CALL_SECONDS = 30.0
UPLOAD_SECONDS = 60
TIERED_TOPIC = {
    "remote.storage.enable": "true",
    "internal.segment.bytes": str(SEGMENT_BYTES),
    "retention.ms": "-1",
    "local.retention.ms": "500",
}
Rows = list[dict[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plugin:
    """What uploads segments: the broker's settings and jars, and the source that reads `tier`."""

    manager: str
    settings: dict[str, str]
    jars: Path
    tier: Path
    source: str


def local_plugin(folder: Path) -> Plugin:
    """LocalTieredStorage, which is Kafka's own reference."""
    return Plugin(
        manager="org.apache.kafka.server.log.remote.storage.LocalTieredStorage",
        settings={"dir": str(folder), "delete.on.close": "false"},
        jars=tiered_jars(),
        tier=folder / TIER,
        source="layout: local",
    )


def aiven_plugin(folder: Path, jars: Path, random: Random) -> Plugin:
    """Aiven's plugin with its storage in a directory; the seed decides compression, encryption and chunks."""
    folder.mkdir(parents=True)
    storage = "io.aiven.kafka.tieredstorage.storage.filesystem.FileSystemStorage"
    settings = {
        "storage.backend.class": storage,
        "storage.root": str(folder),
        "key.prefix": KEY_PREFIX,
        "chunk.size": str(random.choice([700, 1024, 2**22])),
        "compression.enabled": random.choice(["true", "false"]),
        "encryption.enabled": random.choice(["true", "false"]),
        "fetch.chunk.cache.class": "io.aiven.kafka.tieredstorage.fetch.cache.MemoryChunkCache",
        "fetch.chunk.cache.size": str(2**26),
    }
    key = private_key()
    (folder.parent / KEY_FILE).write_bytes(key.export_key(pkcs=8))
    (folder.parent / "public.pem").write_bytes(key.public_key().export_key())
    if settings["encryption.enabled"] == "true":
        pair = f"encryption.key.pairs.{KEY_ID}"
        settings |= {
            "encryption.key.pair.id": KEY_ID,
            "encryption.key.pairs": KEY_ID,
            f"{pair}.public.key.file": str(folder.parent / "public.pem"),
            f"{pair}.private.key.file": str(folder.parent / KEY_FILE),
        }
    keys = f"encryption_keys: {{{KEY_ID}: 'file:{folder.parent / KEY_FILE}'}}"
    return Plugin(
        manager="io.aiven.kafka.tieredstorage.RemoteStorageManager",
        settings=settings,
        jars=jars,
        tier=folder,
        source=f"layout: aiven, key_prefix: {KEY_PREFIX.rpartition('/')[2]}, {keys}",
    )


def settings_of_tier(plugin: Plugin) -> dict[str, str]:
    """A broker's settings: uploads by the plugin, and looks for more to do every second."""
    return {
        "remote.log.storage.system.enable": "true",
        "remote.log.storage.manager.class.name": plugin.manager,
        "remote.log.metadata.manager.listener.name": "PLAINTEXT",
        **{f"rsm.config.{name}": value for name, value in plugin.settings.items()},
        "rlmm.config.remote.log.metadata.topic.replication.factor": "1",
        "rlmm.config.remote.log.metadata.topic.num.partitions": "3",
        "remote.log.manager.task.interval.ms": "500",
        "log.retention.check.interval.ms": "1000",
        "log.initial.task.delay.ms": "500",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    }


@dataclass
class Workload:
    """The producers of one topic; a step of one of them at a time, in an order that the seed gives."""

    topic: str
    address: str
    random: Random
    producers: dict[str, Producer] = field(default_factory=dict)
    open: set[str] = field(default_factory=set)

    def begin(self) -> None:
        """New producers; those of the same ids before are fenced, their open transactions aborted."""
        self.open.clear()
        for name in ("a", "b", "c"):
            producer = Producer(self._settings() | {"transactional.id": f"{self.topic}-{name}"})
            producer.init_transactions(CALL_SECONDS)
            self.producers[name] = producer
        self.producers["plain"] = Producer(self._settings())

    def _settings(self) -> dict[str, Any]:
        return {
            "bootstrap.servers": self.address,
            "enable.idempotence": True,
            "compression.type": self.random.choice(CODECS),
            "linger.ms": 1,
            "transaction.timeout.ms": 60_000,
            "logger": QUIET,
        }

    def step(self) -> None:
        """Some records, or the end of a transaction."""
        name = self.random.choice(["a", "a", "b", "c", "plain"])
        producer = self.producers[name]
        if name in self.open and self.random.random() < 0.4:
            self._end(name)
            return
        if name != "plain" and name not in self.open:
            producer.begin_transaction()
            self.open.add(name)
        for _ in range(self.random.randrange(1, 5)):
            value = self.random.randbytes(self.random.randrange(1, 500))
            producer.produce(self.topic, value=value, partition=self.random.randrange(PARTITIONS))
        producer.flush(CALL_SECONDS)

    def _end(self, name: str) -> None:
        producer = self.producers[name]
        is_commit = self.random.random() < 0.6
        producer.commit_transaction(CALL_SECONDS) if is_commit else producer.abort_transaction(CALL_SECONDS)
        self.open.discard(name)

    def finish(self) -> None:
        """Ends the transactions that are open."""
        for name in sorted(self.open):
            self._end(name)


@dataclass
class TieredLife:
    """One broker; `early` and `late` are copies of its tail with the tier as it was right after.

    `fetching` is a lake that fetches the tail at the same moments.
    """

    place: Path
    seed: int
    topics: int
    broker: Broker = field(init=False)
    plugin: Plugin = field(init=False)

    def __post_init__(self) -> None:
        folder = (self.place / "broker").resolve()
        jars = os.environ.get(AIVEN_JARS)
        self.plugin = (
            aiven_plugin(folder / "tier", Path(jars), Random(self.seed))
            if jars
            else local_plugin(folder / "tier")
        )
        self.broker = Broker(folder, settings_of_tier(self.plugin), more_jars=(self.plugin.jars,))

    @cached_property
    def fetching(self) -> Lake:
        """A lake whose sources are the tier and the broker itself."""
        live = f"name: {LIVE}, kind: cluster, bootstrap: '{self.broker.address}'"
        return _lake(self.place / "lake-fetching", self.plugin, self.plugin.tier, live)

    def copied(self, name: str, logs: Path) -> Lake:
        """A lake whose sources are copies of the tier and of the tail."""
        tail = f"name: tail, kind: broker-log, root: '{logs / 'tail'}'"
        return _lake(self.place / name, self.plugin, logs / "tier", tail)

    def live(self) -> Rows:
        """Runs everything; returns what a read_committed consumer got at the end."""
        names = [f"t{number}" for number in range(self.topics)]
        self.broker.format()
        self.broker.start()
        self._create(names)
        work = [Workload(name, self.broker.address, Random(f"{self.seed}-{name}")) for name in names]
        self._work(work)
        self._await_local_retention(names)
        self._copy("early")
        self.fetching.run(today() - timedelta(days=1))
        self._kill_in_the_middle(work)
        self._work(work)
        connection = Connection(self.broker.port)
        await_decisions(connection)
        connection.close()
        self._await_local_retention(names)
        truth = read_truth(self.broker.address, dict.fromkeys(names, (PARTITIONS, "CreateTime")))
        self._copy("late")
        self.fetching.run(today())
        return truth

    def _create(self, names: list[str]) -> None:
        new = [
            NewTopic(name, num_partitions=PARTITIONS, replication_factor=1, config=TIERED_TOPIC)
            for name in names
        ]
        client = admin(self.broker.address)
        for future in client.create_topics(new).values():
            future.result(CALL_SECONDS)
        wait_for_leaders(self.broker.address)

    def _work(self, work: list[Workload]) -> None:
        for each in work:
            each.begin()
        for _ in range(STEPS):
            for each in work:
                each.step()
        for each in work:
            each.finish()

    def _kill_in_the_middle(self, work: list[Workload]) -> None:
        """Kills the broker while transactions are open and uploads are under way."""
        for each in work:
            each.begin()
        for _ in range(STEPS // 4):
            for each in work:
                each.step()
        self.broker.kill()
        for each in work:
            for producer in each.producers.values():
                producer.purge()
        self.broker.start()
        wait_for_leaders(self.broker.address)

    def _await_local_retention(self, names: list[str]) -> None:
        """Until the first segment of every partition is only in the tier."""
        firsts = [
            self.broker.data / f"{name}-{number}" / f"{0:020d}.log"
            for name in names
            for number in range(PARTITIONS)
        ]
        deadline = time.monotonic() + UPLOAD_SECONDS
        while any(path.exists() for path in firsts):
            if time.monotonic() > deadline:
                raise TimeoutError("segments were not uploaded and deleted")
            time.sleep(0.3)

    def _copy(self, name: str) -> None:
        """The tail first: what local retention deletes meanwhile is in the tier by then."""
        copy_live(self.broker.data, self.place / name / "tail")
        try:
            shutil.copytree(self.plugin.tier, self.place / name / "tier", ignore_dangling_symlinks=True)
        except shutil.Error as error:  # the broker deletes segments meanwhile
            if any(Path(source).exists() for source, *_ in error.args[0]):
                raise


def tiered_trial(place: Path, seed: int, *, topics: int = TOPICS) -> dict[str, int]:
    """Everything in `place`; raises `BrokenPromise` at the first difference."""
    life = TieredLife(place, seed, topics)
    try:
        with lived():
            truth = life.live()
    finally:
        life.broker.kill()
    expect_none(differing_records(truth, life.fetching.records()), "tier and broker hold what a consumer got")
    expect_none(_fetched_from_tier(life), "what only the tier has is not fetched")
    once = life.copied("lake-once", place / "late")
    outcome = once.run(today())
    expect_none(differing_records(truth, once.records()), "tier and tail hold what a consumer got")
    expect_none(_warnings(once, outcome), "transaction indexes agree with markers, and nothing is missing")
    source = place / "source"
    twice = life.copied("lake-twice", source)
    for days_ago, name in ((1, "early"), (0, "late")):
        shutil.rmtree(source, ignore_errors=True)
        shutil.copytree(place / name, source)
        outcome = twice.run(today() - timedelta(days=days_ago))
        expect_none(_warnings(twice, outcome), f"nothing is missing in {name}")
    expect_none(differing_records(truth, twice.records()), "two runs hold what a consumer got")
    uploads = len(list((place / "late" / "tier").rglob("*.log")))
    aborted = len(list((place / "late" / "tier").rglob("*.txnindex")))
    return {"seeds": topics, "records": len(truth), "uploads": uploads, "indexes of aborted": aborted}


def _fetched_from_tier(life: TieredLife) -> Iterator[str]:
    """Segments of the first cut that begin where the log does: local retention had deleted that by then."""
    cuts = sorted((life.fetching.place / "lake" / "sources" / LIVE).iterdir())
    yield from (str(path) for path in cuts[0].glob(f"t*/{0:020d}.log"))


def _lake(place: Path, plugin: Plugin, tier: Path, tail: str) -> Lake:
    place.mkdir(parents=True)
    (place / CONFIG).write_text(
        f"""
lake: lake
sources:
  - {{name: past, kind: tiered, {plugin.source}, root: '{tier}'}}
  - {{{tail}, topics: {{exclude: [__remote_log_metadata]}}}}
kafka: {{transaction_state_partitions: {INTERNAL_PARTITIONS}}}
"""
    )
    return Lake(place=place, settings=load_settings(place / CONFIG))


def _warnings(lake: Lake, outcome: RunOutcome) -> Iterator[str]:
    store, key = open_lake(lake.settings), step_key(outcome.run_id, Step.ADMIT, MESSAGES)
    if store.stat(key) is not None:
        yield from json.loads(store.read(key))
