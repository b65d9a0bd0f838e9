"""A broker with log maintenance: compaction, deleted records, expired ids, an upgrade."""

import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from confluent_kafka.cimpl import NewTopic

from spark_jobs.kafka.formats.log_files import LOG_START_OFFSET_CHECKPOINT
from tests.broker.admin import READ_COMMITTED, delete_records, offsets, transactional_ids
from tests.broker.beliefs import BrokerFacts, ask_broker
from tests.broker.cleaner import checkpoint_offsets, is_clean, while_it_rests
from tests.broker.clients.java import JavaClient
from tests.broker.clients.workplace import Workplace
from tests.broker.copies import copy_live
from tests.broker.groups import GroupOffsets, ask_groups, commit_in_transactions, commit_plainly
from tests.broker.judge import Broker, java_command
from tests.broker.life import await_decisions
from tests.broker.truth import admin, create_topics, write_truth
from tests.broker.upkeep_clients import (
    COMPACTED,
    LARGE,
    MAX_BATCH,
    PARTITIONS,
    SECONDS,
    TOPICS,
    UpkeepClients,
    until,
)
from tests.broker.wire import Connection

SEGMENT_BYTES = 4096
OVERRIDES = {
    "log.cleaner.backoff.ms": "200",
    "log.initial.task.delay.ms": "500",
    "log.flush.start.offset.checkpoint.interval.ms": "500",
    "log.retention.check.interval.ms": "1000",
    "producer.id.expiration.check.interval.ms": "200",
    "transactional.id.expiration.ms": "10000",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "500",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
}
CLEANED_OFTEN = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.0",
    "delete.retention.ms": "1000",
    "internal.segment.bytes": str(SEGMENT_BYTES),
    "retention.ms": "-1",
}


@dataclass
class Upkeep:
    """One broker's life; copies: `early`, before most was cleaned, `quiet`, and `data` after the stop."""

    place: Path
    seed: int
    broker: Broker = field(init=False)
    random: Random = field(init=False)
    clients: UpkeepClients = field(init=False)
    work: Workplace = field(init=False)
    groups: GroupOffsets = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.random = Random(self.seed)
        self.broker = Broker(
            (self.place / "broker").resolve(), OVERRIDES, features={"transaction.version": 1}
        )
        self.clients = UpkeepClients(address=self.broker.address, random=self.random)
        self.work = Workplace(address=self.broker.address, seed=self.seed)

    def live(self) -> BrokerFacts:
        """Runs everything; returns the broker's replies once all clients have stopped."""
        self.broker.format()
        self.broker.start()
        self._create_topics()
        connection = Connection(self.broker.port)
        self._work(connection, "old")
        while_it_rests(self.broker.data, COMPACTED, self._copy_early)
        self._upgrade()
        self._work(connection, "new")
        self._prune_transactional_ids(connection)
        self._delete_records(connection)
        keeper = self.clients.leave_open()
        await_decisions(connection)
        self._await_cleaner(connection)
        write_truth(self.broker.address, TOPICS, self.place)
        facts = ask_broker(connection, PARTITIONS)
        self.groups = ask_groups(self.broker.address, PARTITIONS)
        copy_live(self.broker.data, self.place / "quiet")
        connection.close()
        self.broker.stop()
        copy_live(self.broker.data, self.place / "data")
        keeper.purge()
        return facts

    def _copy_early(self) -> None:
        """A copy of the log, and what a consumer gets of it; what an earlier try left is gone."""
        for name in ("early", "early-truth"):
            shutil.rmtree(self.place / name, ignore_errors=True)
        copy_live(self.broker.data, self.place / "early")
        (self.place / "early-truth").mkdir()
        write_truth(self.broker.address, TOPICS, self.place / "early-truth")

    def _create_topics(self) -> None:
        count, _ = TOPICS[COMPACTED]
        new = NewTopic(COMPACTED, num_partitions=count, replication_factor=1, config=CLEANED_OFTEN)
        client = admin(self.broker.address)
        for future in client.create_topics([new]).values():
            future.result(SECONDS)
        # No batch is larger than a segment, so the largest ones have a topic of their own.
        create_topics(self.broker.address, {LARGE: TOPICS[LARGE]}, 8 * MAX_BATCH)
        others = {name: kind for name, kind in TOPICS.items() if name not in {COMPACTED, LARGE}}
        create_topics(self.broker.address, others, SEGMENT_BYTES)

    def _work(self, connection: Connection, phase: str) -> None:
        """Both kinds of clients: the Java client goes by the features that the broker has by then."""
        clients = self.clients
        self.work.stopped.clear()
        clients.transact(f"{phase}-transactional")
        clients.send(f"{phase}-idempotent")
        clients.return_forgotten(connection)
        commit_plainly(self.broker.address)
        commit_in_transactions(self.broker.address)
        JavaClient(self.work, f"{phase}-java", seconds=6.0).run()

    def _upgrade(self) -> None:
        command = ("--bootstrap-server", self.broker.address, "upgrade", "--feature", "transaction.version=2")
        done = subprocess.run(
            java_command("org.apache.kafka.tools.FeatureCommand", *command, heap="128m"),
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def _prune_transactional_ids(self, connection: Connection) -> None:
        """Until the coordinator has let all of them go."""
        until(lambda: not transactional_ids(connection), "transactional ids expire")

    def _delete_records(self, connection: Connection) -> None:
        """To somewhere in the middle of a batch or a transaction, and to the end of another partition."""
        ends = offsets(connection, PARTITIONS)
        starts = {("pay", 0): int(ends["pay", 0] * self.random.random()), ("lat", 0): ends["lat", 0]}
        for tp, start in starts.items():
            delete_records(connection, tp, start)
        # A copy knows of it once it is written down, and not before.
        data = self.broker.data
        until(
            lambda: starts.items() <= checkpoint_offsets(data, LOG_START_OFFSET_CHECKPOINT).items(),
            "log starts",
        )

    def _await_cleaner(self, connection: Connection) -> None:
        """Waits until the cleaner has processed every compacted partition, and has nothing left to clean."""
        cleaned = [(COMPACTED, number) for number in range(TOPICS[COMPACTED][0])]
        stable = offsets(connection, cleaned, isolation=READ_COMMITTED)
        until(
            lambda: all(is_clean(self.broker.data, tp, stable[tp]) for tp in cleaned), "the cleaner is done"
        )
