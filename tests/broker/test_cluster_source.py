"""A live broker as a source: its bytes, its consumers' records, and what happens in it between runs."""

import asyncio
import sys
from collections.abc import Iterator
from datetime import date
from itertools import count
from pathlib import Path
from random import Random

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin._acl import AclBinding, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType
from confluent_kafka.admin._scram import ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion
from confluent_kafka.cimpl import NewPartitions

from spark_jobs.config.sources import INTERNAL_TOPICS
from spark_jobs.flow import Step
from spark_jobs.kafka.formats.log_files import CLEAN_SHUTDOWN_FILE
from spark_jobs.lake.errors import TopicRecreated
from spark_jobs.sources.cluster import fetching, planning, segments
from spark_jobs.sources.cluster.errors import ClusterDenied, ClusterUnavailable, LogDiverged
from tests.broker.admin import delete_records
from tests.broker.beliefs import differing_records
from tests.broker.clients.librdkafka import QUIET
from tests.broker.cluster_source import LIVE, await_markers, cluster_lake, fetched, from_offset, stored
from tests.broker.judge import Broker, free_port
from tests.broker.proxy import Proxy, lossy, lying
from tests.broker.runs import Lake
from tests.broker.truth import admin, create_topics, read_truth, wait_for_leaders
from tests.broker.wire import Connection

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("kafka")]

FIRST, SECOND, THIRD = date(2026, 3, 1), date(2026, 3, 2), date(2026, 3, 3)
PARTITIONS = 2
SEGMENT_BYTES = 8192
SECONDS = 60.0
NUMBERS = count(1)


class Live:
    """The broker of this module, with a listener behind a proxy and one that asks for a name and password."""

    def __init__(self, place: Path) -> None:
        self.proxied, self.behind, self.sasl = free_port(), free_port(), free_port()
        self.broker = Broker(place)
        plain = "org.apache.kafka.common.security.plain.PlainLoginModule required user_ada=s3cret;"
        scram = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        ours = f"PLAINTEXT://127.0.0.1:{self.broker.port}"
        sasl = f"SASL://127.0.0.1:{self.sasl}"
        controller = f"CONTROLLER://127.0.0.1:{self.broker.controller_port}"
        self.broker.overrides |= {
            "listeners": f"{ours},BEHIND://127.0.0.1:{self.behind},{sasl},{controller}",
            "advertised.listeners": f"{ours},BEHIND://127.0.0.1:{self.proxied},{sasl}",
            "listener.security.protocol.map": (
                "PLAINTEXT:PLAINTEXT,BEHIND:PLAINTEXT,SASL:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT"
            ),
            "inter.broker.listener.name": "PLAINTEXT",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
            "listener.name.sasl.plain.sasl.jaas.config": plain,
            "listener.name.sasl.scram-sha-512.sasl.jaas.config": scram,
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
        }

    @property
    def address(self) -> str:
        return self.broker.address

    def topic(self, partitions: int = PARTITIONS) -> str:
        """A new topic."""
        name = f"orders{next(NUMBERS)}"
        create_topics(self.address, {name: (partitions, "CreateTime")}, SEGMENT_BYTES)
        return name

    def work(
        self, topic: str, transactions: int = 6, *, partitions: int = PARTITIONS, codec: str = "zstd"
    ) -> None:
        """Transactions of which every third is aborted, in batches of a few records."""
        settings = {"bootstrap.servers": self.address, "logger": QUIET, "compression.type": codec}
        producer = Producer({**settings, "transactional.id": topic, "batch.num.messages": 7})
        producer.init_transactions(SECONDS)
        random = Random(transactions)
        for number in range(transactions):
            producer.begin_transaction()
            for record in range(40):
                value = b"%d.%d " % (number, record) + random.randbytes(60)
                producer.produce(topic, partition=record % partitions, value=value)
            producer.flush(SECONDS)  # an abort before anything was sent is refused by the broker
            producer.abort_transaction(SECONDS) if number % 3 == 1 else producer.commit_transaction(SECONDS)
        await_markers(self.address, topic, partitions)

    def lose_end(self, topic: str) -> None:
        """Restarts the broker with only the first segment of a partition, as if the rest was not flushed."""
        self.broker.stop()
        for path in (self.broker.data / f"{topic}-0").iterdir():
            if path.stem.isdigit() and int(path.stem) > 0:
                path.unlink()
        (self.broker.data / CLEAN_SHUTDOWN_FILE).unlink()
        self.broker.start()
        wait_for_leaders(self.address)

    def expect_same(self, lake: Lake, topic: str, partitions: int = PARTITIONS) -> None:
        """Segments are the broker's bytes, tables are what its consumer gets."""
        for number in range(partitions):
            log = stored(self.broker.data, f"{topic}-{number}")
            assert log
            assert fetched(lake, f"{topic}-{number}") == log
        truth = read_truth(self.address, {topic: (partitions, "CreateTime")})
        assert truth
        assert list(differing_records(truth, lake.records())) == []


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory, kafka: None) -> Iterator[Live]:
    live = Live(tmp_path_factory.mktemp("live") / "broker")
    live.broker.format()
    live.broker.start()
    try:
        yield live
    finally:
        live.broker.kill()


def test_segments_are_the_brokers_bytes_and_tables_what_its_consumer_gets(live: Live, tmp_path: Path) -> None:
    topic = live.topic()
    lake = cluster_lake(tmp_path, live.address, [topic])
    for day, codec in ((FIRST, "zstd"), (SECOND, "lz4"), (THIRD, "none")):
        live.work(topic, codec=codec)
        lake.run(day)
        live.expect_same(lake, topic)
    assert (tmp_path / "lake" / "sources" / LIVE / str(THIRD) / f"{INTERNAL_TOPICS[0]}-0").parent.is_dir()


def test_a_cut_stays_as_it_is_when_its_date_is_run_again(live: Live, tmp_path: Path) -> None:
    topic = live.topic()
    lake = cluster_lake(tmp_path, live.address, [topic])
    live.work(topic)
    first = lake.run(FIRST, until=Step.STAGE)
    live.work(topic)
    again = lake.run(FIRST)
    assert again.run_id == first.run_id
    before = fetched(lake, f"{topic}-0")
    assert stored(live.broker.data, f"{topic}-0").startswith(before)
    lake.run(SECOND)
    live.expect_same(lake, topic)


def test_partitions_that_were_added_are_taken_and_named(live: Live, tmp_path: Path) -> None:
    topic = live.topic()
    lake = cluster_lake(tmp_path, live.address, [topic])
    live.work(topic)
    lake.run(FIRST)
    client = admin(live.address)
    for future in client.create_partitions([NewPartitions(topic, 3)]).values():
        future.result(SECONDS)
    live.work(topic, partitions=3)
    outcome = lake.run(SECOND)
    live.expect_same(lake, topic, partitions=3)
    assert f"partitions were added since the last run: {topic}-2" in lake.messages(outcome, Step.REBUILD)


def test_offsets_that_were_deleted_before_a_run_are_listed_as_such(live: Live, tmp_path: Path) -> None:
    topic = live.topic()
    lake = cluster_lake(tmp_path, live.address, [topic])
    live.work(topic)
    lake.run(FIRST)
    end = len(_offsets_of(fetched(lake, f"{topic}-0")))
    assert end
    live.work(topic)
    log = stored(live.broker.data, f"{topic}-0")
    connection = Connection(live.broker.port)
    start = delete_records(connection, (topic, 0), _next_offset(fetched(lake, f"{topic}-0")) + 30)
    connection.close()
    outcome = lake.run(SECOND)
    expected = _next_offset(fetched_until(lake, topic, FIRST))
    rows = [row for row in lake.step_rows(outcome, Step.ADMIT, "gaps.parquet") if row["topic"] == topic]
    assert [row["status"] for row in rows] == ["deleted"]
    assert rows[0]["first_offset"] == expected
    assert rows[0]["last_offset"] < start
    assert log.endswith(from_offset(fetched(lake, f"{topic}-0"), start))
    assert f"{topic}-0 {expected} to {start - 1}" in lake.messages(outcome, Step.REBUILD)
    truth = read_truth(live.address, {topic: (PARTITIONS, "CreateTime")})
    offsets = {(row["partition"], row["offset"]) for row in lake.records()}
    assert {(row["partition"], row["offset"]) for row in truth} <= offsets


def test_a_topic_that_was_recreated_is_another_log(live: Live, tmp_path: Path) -> None:
    topic = live.topic()
    lake = cluster_lake(tmp_path, live.address, [topic])
    live.work(topic)
    lake.run(FIRST)
    client = admin(live.address)
    for future in client.delete_topics([topic]).values():
        future.result(SECONDS)
    create_topics(live.address, {topic: (PARTITIONS, "CreateTime")}, SEGMENT_BYTES)
    live.work(topic, transactions=3)
    with pytest.raises(TopicRecreated, match="deleted and recreated"):
        lake.run(SECOND)
    settings = f"{{{topic}: {{on_recreate: new_table}}}}"
    allowed = cluster_lake(tmp_path, live.address, [topic], topic_settings=settings)
    allowed.run(SECOND)
    truth = read_truth(live.address, {topic: (PARTITIONS, "CreateTime")})
    new = [row for row in allowed.records() if row["topic"] == f"{topic}~2"]
    assert [row["value"] for row in new] == [row["value"] for row in truth]


def test_a_log_that_lost_its_end_is_never_continued(
    live: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = live.topic(partitions=1)
    lake = cluster_lake(tmp_path, live.address, [topic])
    live.work(topic, 12, partitions=1)
    lake.run(FIRST)
    live.lose_end(topic)
    _patient(monkeypatch, tries=3)
    with pytest.raises(LogDiverged, match="its high watermark is") as short:
        lake.run(SECOND)
    live.work(topic, 24, partitions=1)
    with pytest.raises(
        LogDiverged, match="after an unclean leader election the cluster lost offsets"
    ) as longer:
        lake.run(SECOND)
    assert not short.value.transient
    assert not longer.value.transient
    assert not (tmp_path / "lake" / "sources" / LIVE / str(SECOND)).exists()


def test_an_interrupted_fetch_continues_behind_what_is_complete(
    live: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = live.topic(partitions=1)
    live.work(topic, 30, partitions=1)
    small = ", max_partition_fetch_bytes: 4KiB"
    lake = cluster_lake(tmp_path, f"127.0.0.1:{live.proxied}", [topic], more=small)
    _patient(monkeypatch, tries=2)
    monkeypatch.setattr(segments, "SEGMENT_BYTES", 20_000)
    replies = count()

    def hang_up(payload: bytes) -> bytes | None:
        return payload if next(replies) < 20 else None

    with (
        Proxy(live.proxied, live.behind, change=hang_up),
        pytest.raises(ClusterUnavailable, match="no progress"),
    ):
        lake.run(FIRST)
    folder = tmp_path / "lake" / "sources" / LIVE / str(FIRST) / f"{topic}-0"
    complete = {path.name: path.stat().st_ino for path in folder.glob("*.log")}
    assert complete
    with Proxy(live.proxied, live.behind) as proxy:
        lake.run(FIRST)
        size = len(fetched(lake, f"{topic}-0"))
        assert proxy.bytes_sent < size * 2
    assert complete.items() <= {path.name: path.stat().st_ino for path in folder.glob("*.log")}.items()
    live.expect_same(lake, topic, partitions=1)


@pytest.mark.parametrize("fault", ["slow", "lossy", "lying"])
def test_bytes_are_the_same_over_a_bad_connection(
    live: Live, tmp_path: Path, seed: int, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, random = live.topic(), Random(seed)
    live.work(topic, 12)
    lake = cluster_lake(
        tmp_path, f"127.0.0.1:{live.proxied}", [topic], more=", max_partition_fetch_bytes: 4KiB"
    )
    _patient(monkeypatch, tries=12)
    changes = {"slow": bytes, "lossy": lossy(random), "lying": lying(random)}
    pause = 0.02 if fault == "slow" else 0.0
    with Proxy(live.proxied, live.behind, change=changes[fault], pause=pause) as proxy:
        lake.run(FIRST)
    assert bool(proxy.changed) is (fault != "slow")
    live.expect_same(lake, topic)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_a_principal_without_the_coordinators_topics_gets_what_markers_decide(
    live: Live, tmp_path: Path, mechanism: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = live.topic()
    live.work(topic)
    _allow(live, topic)
    monkeypatch.setenv("ONCEOVER_LIVE_USERNAME", "ada")
    monkeypatch.setenv("ONCEOVER_LIVE_PASSWORD", "s3cret")
    more = f", security: {{protocol: SASL_PLAINTEXT, mechanism: {mechanism}}}"
    lake = cluster_lake(tmp_path, f"127.0.0.1:{live.sasl}", [topic], more=more)
    outcome = lake.run(FIRST)
    live.expect_same(lake, topic)
    assert "the principal may not read __transaction_state" in lake.messages(outcome, Step.REBUILD)
    assert "s3cret" not in _all_text(tmp_path / "lake" / "sources")
    hidden = live.topic()
    both = cluster_lake(tmp_path, f"127.0.0.1:{live.sasl}", [topic, hidden], more=more)
    with pytest.raises(ClusterDenied, match=f"the principal may not read the topic {hidden}"):
        both.run(SECOND)


def test_a_wrong_password_is_an_error_that_a_person_has_to_act_on(
    live: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONCEOVER_LIVE_USERNAME", "ada")
    monkeypatch.setenv("ONCEOVER_LIVE_PASSWORD", "wrong")
    more = ", security: {protocol: SASL_PLAINTEXT, mechanism: PLAIN}"
    lake = cluster_lake(tmp_path, f"127.0.0.1:{live.sasl}", ["orders"], more=more)
    with pytest.raises(ClusterDenied, match="refused the connection") as refused:
        lake.run(FIRST)
    assert "wrong" not in str(refused.value)
    assert not refused.value.transient


def test_bytes_per_second_are_limited(live: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = live.topic(partitions=1)
    live.work(topic, partitions=1)
    paid: list[float] = []
    sleep = asyncio.sleep

    async def note(seconds: float) -> None:
        paid.append(seconds)
        await sleep(0)

    lake = cluster_lake(
        tmp_path,
        live.address,
        [topic],
        more=", max_bytes_per_second: 4096, max_partition_fetch_bytes: 4KiB",
    )
    monkeypatch.setattr(asyncio, "sleep", note)
    lake.run(FIRST, until=Step.STAGE)
    assert sum(paid) > len(fetched(lake, f"{topic}-0")) / 4096 / 2


def test_without_aiokafka_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "aiokafka", None)
    lake = cluster_lake(tmp_path, "127.0.0.1:1", ["orders"])
    with pytest.raises(Exception, match=r"pip install 'onceover\[cluster\]'"):
        lake.run(FIRST)


def _patient(monkeypatch: pytest.MonkeyPatch, *, tries: int) -> None:
    """So many attempts, without the pauses between them."""
    for module in (planning, fetching):
        monkeypatch.setattr(module, "TRIES", tries)
    monkeypatch.setattr(planning, "LONGEST_PAUSE", 0.05)


def _allow(live: Live, topic: str) -> None:
    client = admin(live.address)
    upsertion = UserScramCredentialUpsertion(
        "ada", ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096), b"s3cret"
    )
    for changed in client.alter_user_scram_credentials([upsertion]).values():
        changed.result(SECONDS)
    acl = AclBinding(
        ResourceType.TOPIC,
        topic,
        ResourcePatternType.LITERAL,
        "User:ada",
        "*",
        AclOperation.READ,
        AclPermissionType.ALLOW,
    )
    for created in client.create_acls([acl]).values():
        created.result(SECONDS)


def _all_text(folder: Path) -> str:
    return "".join(path.read_bytes().decode(errors="replace") for path in folder.rglob("*") if path.is_file())


def fetched_until(lake: Lake, topic: str, day: date) -> bytes:
    files = (lake.place / "lake" / "sources" / LIVE / str(day) / f"{topic}-0").glob("*.log")
    return b"".join(path.read_bytes() for path in sorted(files))


def _offsets_of(log: bytes) -> list[int]:
    found, position = [], 0
    while position < len(log):
        found.append(int.from_bytes(log[position : position + 8], "big"))
        position += 12 + int.from_bytes(log[position + 8 : position + 12], "big")
    return found


def _next_offset(log: bytes) -> int:
    position = last = 0
    while position < len(log):
        last = position
        position += 12 + int.from_bytes(log[position + 8 : position + 12], "big")
    base, delta = (int.from_bytes(log[last + at : last + at + size], "big") for at, size in ((0, 8), (23, 4)))
    return base + delta + 1
