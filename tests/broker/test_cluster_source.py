"""A live broker as a source: its bytes, its consumers' records, and what happens in it between runs."""

import asyncio
import base64
import json
import pickle
import struct
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclBinding, AclBindingFilter, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType
from confluent_kafka.admin._scram import ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion
from confluent_kafka.cimpl import NewPartitions
from rich.console import Console

from spark_jobs.config.sources import INTERNAL_TOPICS
from spark_jobs.execution.spark import Spark
from spark_jobs.flow import Step
from spark_jobs.kafka.formats.log_files import CLEAN_SHUTDOWN_FILE
from spark_jobs.lake.errors import TopicRecreated
from spark_jobs.progress import RunProgress
from spark_jobs.run import execute_run
from spark_jobs.sources.cluster import fetching, planning, reader, replies
from spark_jobs.sources.cluster.brokers import CLIENT_ID
from spark_jobs.sources.cluster.cut import ClusterDenied, ClusterUnavailable, LogDiverged, PartitionFetched
from spark_jobs.sources.cluster.reader import Cluster
from tests.broker.admin import delete_records
from tests.broker.certificates import Certificates
from tests.broker.cluster_source import LIVE, cluster_lake, expect_same, fetched, from_offset, stored, work
from tests.broker.judge import Broker, free_port
from tests.broker.proxy import Proxy, lossy, lying
from tests.broker.runs import Lake
from tests.broker.truth import admin, create_topics, read_truth, wait_for_leaders
from tests.broker.wire import Connection, Reader, Writer
from tests.in_process import InProcess
from tests.s3_server import S3Server
from tests.sources.quotas import note_requests

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("kafka")]

FIRST, SECOND, THIRD = date(2026, 3, 1), date(2026, 3, 2), date(2026, 3, 3)
PARTITIONS = 2
SEGMENT_BYTES = 8192
SECONDS = 60.0
NUMBERS = count(1)
SECRET = "pw-4711-xyz"
DESCRIBE_CLIENT_QUOTAS, ALTER_CLIENT_QUOTAS = 48, 49


class Live:
    """The broker of this module: listeners behind a proxy, with SASL, mutual TLS, and SASL over TLS."""

    def __init__(self, place: Path) -> None:
        self.proxied, self.behind, self.sasl, self.tls, self.sasl_tls = (free_port() for _ in range(5))
        self.broker = Broker(place)
        self.certificates = Certificates(place)
        plain = f"org.apache.kafka.common.security.plain.PlainLoginModule required user_ada={SECRET};"
        scram = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        ours = f"PLAINTEXT://127.0.0.1:{self.broker.port}"
        oauth = (
            "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
            'unsecuredLoginStringClaim_sub="broker";'
        )
        sasl = f"SASL://127.0.0.1:{self.sasl},TLS://127.0.0.1:{self.tls},SASLTLS://127.0.0.1:{self.sasl_tls}"
        controller = f"CONTROLLER://127.0.0.1:{self.broker.controller_port}"
        self.broker.overrides |= {
            "listeners": f"{ours},BEHIND://127.0.0.1:{self.behind},{sasl},{controller}",
            "advertised.listeners": f"{ours},BEHIND://127.0.0.1:{self.proxied},{sasl}",
            "listener.security.protocol.map": (
                "PLAINTEXT:PLAINTEXT,BEHIND:PLAINTEXT,CONTROLLER:PLAINTEXT,"
                "SASL:SASL_PLAINTEXT,TLS:SSL,SASLTLS:SASL_SSL"
            ),
            "inter.broker.listener.name": "PLAINTEXT",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
            **self.certificates.broker_settings,
            "listener.name.tls.ssl.client.auth": "required",
            "listener.name.tls.ssl.principal.mapping.rules": "RULE:^CN=(.*)$/$1/",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
        }
        for name in ("sasl", "sasltls"):
            self.broker.overrides |= {
                f"listener.name.{name}.plain.sasl.jaas.config": plain,
                f"listener.name.{name}.scram-sha-256.sasl.jaas.config": scram,
                f"listener.name.{name}.scram-sha-512.sasl.jaas.config": scram,
                f"listener.name.{name}.oauthbearer.sasl.jaas.config": oauth,
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
        work(self.address, topic, transactions, partitions=partitions, codec=codec)

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
        expect_same(lake, self.broker, topic, partitions)


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
    assert any((tmp_path / "lake" / "sources" / LIVE / str(THIRD)).glob(f"{INTERNAL_TOPICS[0]}-*/*.log"))


@pytest.mark.parametrize("runner", ["in this process", "on Spark"])
def test_tasks_that_fetch_in_parallel_write_the_brokers_bytes(
    live: Live, tmp_path: Path, runner: str, spark: Spark, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "IN_DRIVER_OFFSETS", 0)
    topic = live.topic(partitions=4)
    live.work(topic, partitions=4)
    lake = cluster_lake(tmp_path, live.address, [topic], more=", max_bytes_per_second: 100MB")
    chosen: Spark = InProcess() if runner == "in this process" else spark
    tasks = _tasks_of(chosen, monkeypatch)
    execute_run(
        lake.settings, FIRST, until=Step.STAGE, spark=chosen, progress=RunProgress(Console(quiet=True))
    )
    assert len([cut for task in tasks for cut in task.cuts if cut.topic == topic]) == 4
    assert len(tasks) > 1
    assert {task.bytes_per_second for task in tasks} == {100_000_000 // chosen.parallelism}
    for number in range(4):
        assert fetched(lake, f"{topic}-{number}") == stored(live.broker.data, f"{topic}-{number}")


def _tasks_of(runner: Spark, monkeypatch: pytest.MonkeyPatch) -> list[fetching.ClusterFetchTask]:
    """The tasks of fetches that `runner` gets."""
    found: list[fetching.ClusterFetchTask] = []
    run_tasks = type(runner).run_tasks

    def note(self: Spark, function: Any, tasks: Any, **more: Any) -> Any:
        found.extend(task for task in tasks if isinstance(task, fetching.ClusterFetchTask))
        return run_tasks(self, function, tasks, **more)

    monkeypatch.setattr(type(runner), "run_tasks", note)
    return found


def test_a_lake_in_s3_has_the_brokers_bytes_and_its_consumers_records(
    live: Live, tmp_path: Path, s3_server: S3Server
) -> None:
    topic, bucket = live.topic(), s3_server.new_bucket()
    catalog = f"catalog: {{kind: sql, uri: 'sqlite:///{tmp_path}/catalog.db'}}"
    server = f"s3: {{endpoint_url: '{s3_server.endpoint_url}', addressing: path}}"
    where = f"s3://{bucket}/lake\n{catalog}\n{server}"
    lake = cluster_lake(tmp_path, live.address, [topic], lake=where)
    live.work(topic)
    lake.run(FIRST)
    live.expect_same(lake, topic)


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


@pytest.mark.parametrize("moment", ["before the cut", "between cut and fetch"])
def test_offsets_that_were_deleted_before_they_were_fetched_are_listed_as_such(
    live: Live, tmp_path: Path, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = live.topic()
    lake = cluster_lake(tmp_path, live.address, [topic])
    live.work(topic)
    lake.run(FIRST)
    end = len(_offsets_of(fetched(lake, f"{topic}-0")))
    assert end
    live.work(topic)
    log = stored(live.broker.data, f"{topic}-0")
    deleted, complete = _next_offset(fetched(lake, f"{topic}-0")) + 30, Cluster._complete

    def delete() -> None:
        connection = Connection(live.broker.port)
        assert delete_records(connection, (topic, 0), deleted) == deleted
        connection.close()

    def delete_and_complete(*arguments: Any) -> None:
        delete()
        complete(*arguments)

    if moment == "before the cut":
        delete()
    else:
        monkeypatch.setattr(Cluster, "_complete", delete_and_complete)
    outcome, start = lake.run(SECOND), deleted
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
    monkeypatch.setattr(replies, "SEGMENT_BYTES", 20_000)
    sent, again = count(), list[int]()

    def hang_up(payload: bytes) -> bytes | None:
        return payload if not _is_about(payload, topic) or next(sent) < 12 else None

    def note(payload: bytes) -> bytes:
        again.append(len(payload) if _is_about(payload, topic) else 0)
        return payload

    with (
        Proxy(live.proxied, live.behind, change=hang_up),
        pytest.raises(ClusterUnavailable, match="no progress"),
    ):
        lake.run(FIRST)
    folder = tmp_path / "lake" / "sources" / LIVE / str(FIRST) / f"{topic}-0"
    complete = {path.name: path.stat().st_ino for path in folder.glob("*.log")}
    assert complete
    kept = sum(path.stat().st_size for path in folder.glob("*.log"))
    with Proxy(live.proxied, live.behind, change=note):
        lake.run(FIRST)
    assert sum(again) < (len(fetched(lake, f"{topic}-0")) - kept) * 1.5
    assert complete.items() <= {path.name: path.stat().st_ino for path in folder.glob("*.log")}.items()
    live.expect_same(lake, topic, partitions=1)


def _is_about(payload: bytes, topic: str) -> bool:
    """Whether a reply is of Fetch v11 and of this topic, which is the only one in it."""
    return payload[20 : 20 + len(topic)] == topic.encode()


@pytest.mark.parametrize("fault", ["slow", "lossy", "lying"])
def test_bytes_are_the_same_over_a_bad_connection(
    live: Live, tmp_path: Path, seed: int, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, random = live.topic(), Random(seed)
    live.work(topic, 12)
    lake = cluster_lake(
        tmp_path, f"127.0.0.1:{live.proxied}", [topic], more=", max_partition_fetch_bytes: 4KiB"
    )
    _patient(monkeypatch, tries=40)
    changes = {"slow": bytes, "lossy": lossy(random), "lying": lying(random)}
    pause = 0.02 if fault == "slow" else 0.0
    with Proxy(live.proxied, live.behind, change=changes[fault], pause=pause) as proxy:
        lake.run(FIRST)
    assert bool(proxy.changed) is (fault != "slow")
    live.expect_same(lake, topic)


def test_a_principal_without_the_coordinators_topics_gets_what_markers_decide(
    live: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = live.topic()
    live.work(topic)
    _allow(live, topic)
    monkeypatch.setenv("ONCEOVER_LIVE_USERNAME", "ada")
    monkeypatch.setenv("ONCEOVER_LIVE_PASSWORD", SECRET)
    more = f", security: {{protocol: SASL_SSL, mechanism: SCRAM-SHA-512, ca_file: {live.certificates.ca}}}"
    lake = cluster_lake(tmp_path, f"127.0.0.1:{live.sasl_tls}", [topic], more=more)
    tasks = _pickled_tasks(monkeypatch)
    outcome = lake.run(FIRST)
    live.expect_same(lake, topic)
    assert "the principal may not read __transaction_state" in lake.messages(outcome, Step.REBUILD)
    assert tasks
    assert SECRET.encode() not in b"".join(tasks)
    assert SECRET not in _all_text(tmp_path)
    hidden = live.topic()
    both = cluster_lake(tmp_path, f"127.0.0.1:{live.sasl_tls}", [topic, hidden], more=more)
    with pytest.raises(ClusterDenied, match=f"the principal may not read the topic {hidden}"):
        both.run(SECOND)


LOGINS = [
    ("SASL_PLAINTEXT", "PLAIN"),
    ("SASL_PLAINTEXT", "SCRAM-SHA-512"),
    ("SASL_SSL", "PLAIN"),
    ("SASL_SSL", "SCRAM-SHA-256"),
    ("SASL_SSL", "OAUTHBEARER"),
    ("SSL", None),
]


@pytest.fixture(scope="module")
def allowed(live: Live) -> str:
    """A topic with records that the principal ada may read."""
    topic = live.topic()
    live.work(topic)
    _allow(live, topic)
    return topic


@pytest.mark.parametrize("login", LOGINS)
def test_every_way_to_log_in_gets_the_same_bytes(
    live: Live,
    allowed: str,
    tmp_path: Path,
    login: tuple[str, str | None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    protocol, mechanism = login
    (tmp_path / "token").write_text(_token("ada"))
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_LIVE", f"kafka://ada:{SECRET}@ignored:9092")
    monkeypatch.setenv("ONCEOVER_LIVE_TOKEN_COMMAND", f"cat '{tmp_path / 'token'}'")
    ports = {"SASL_PLAINTEXT": live.sasl, "SASL_SSL": live.sasl_tls, "SSL": live.tls}
    security = [f"protocol: {protocol}"]
    if mechanism is not None:
        security += [f"mechanism: {mechanism}"]
        security += ["connection: kafka_live"] if mechanism != "OAUTHBEARER" else []
    if protocol != "SASL_PLAINTEXT":
        security += [f"ca_file: {live.certificates.ca}"]
    if protocol == "SSL":
        security += [f"certificate_file: {live.certificates.ada}", f"key_file: {live.certificates.ada}"]
    more = f", security: {{{', '.join(security)}}}"
    lake = cluster_lake(tmp_path, f"127.0.0.1:{ports[protocol]}", [allowed], more=more)
    lake.run(FIRST, until=Step.STAGE)
    for number in range(PARTITIONS):
        assert fetched(lake, f"{allowed}-{number}") == stored(live.broker.data, f"{allowed}-{number}")


@pytest.mark.parametrize(
    ("host", "ca", "problem"),
    [
        ("127.0.0.1", "other", r"the certificate of 127\.0\.0\.1:\d+ is refused: .* Set security\.ca_file"),
        ("localhost", "ca", r"refused: it is for another host: .*localhost.* Use a name that is in the cert"),
    ],
)
def test_a_certificate_that_does_not_fit_is_named_with_what_to_do(
    live: Live, tmp_path: Path, host: str, ca: str, problem: str
) -> None:
    files = live.certificates
    keys = f"certificate_file: {files.ada}, key_file: {files.ada}"
    more = f", security: {{protocol: SSL, ca_file: {getattr(files, ca)}, {keys}}}"
    lake = cluster_lake(tmp_path, f"{host}:{live.tls}", ["orders"], more=more)
    with pytest.raises(ClusterDenied, match=problem) as refused:
        lake.run(FIRST)
    assert not refused.value.transient


@pytest.mark.parametrize("security", ["protocol: SSL, ca_file: {ca}", "protocol: PLAINTEXT"])
def test_a_listener_that_expects_other_security_is_named_with_the_protocol(
    live: Live, tmp_path: Path, security: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _patient(monkeypatch, tries=1)
    given = security.format(ca=live.certificates.ca)
    lake = cluster_lake(tmp_path, f"127.0.0.1:{live.tls}", ["orders"], more=f", security: {{{given}}}")
    protocol = given.partition(",")[0].removeprefix("protocol: ")
    with pytest.raises(ClusterUnavailable, match=f"no broker answers with security.protocol {protocol}: 127"):
        lake.run(FIRST)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512", "OAUTHBEARER"])
def test_a_wrong_password_or_token_is_an_error_that_a_person_has_to_act_on(
    live: Live, tmp_path: Path, mechanism: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONCEOVER_LIVE_USERNAME", "ada")
    monkeypatch.setenv("ONCEOVER_LIVE_PASSWORD", "wrong")
    monkeypatch.setenv("ONCEOVER_LIVE_TOKEN", expired := _token("ada", seconds=-1800))
    more = f", security: {{protocol: SASL_PLAINTEXT, mechanism: {mechanism}}}"
    lake = cluster_lake(tmp_path, f"127.0.0.1:{live.sasl}", ["orders"], more=more)
    with pytest.raises(ClusterDenied, match="refused the connection") as refused:
        lake.run(FIRST)
    assert not {"wrong", expired} & set(str(refused.value).split())
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


def test_a_quota_of_the_broker_is_respected(
    live: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = live.topic(partitions=4)
    live.work(topic, partitions=4)
    names = [*(f"{topic}-{number}" for number in range(4)), *_folders(live, *INTERNAL_TOPICS)]
    size = sum(len(stored(live.broker.data, name)) for name in names)
    lake = cluster_lake(tmp_path, live.address, [topic], more=", max_partition_fetch_bytes: 4KiB")
    with _quota(live, size // 16):  # the broker counts in eleven seconds
        noted = note_requests(monkeypatch)
        lake.run(FIRST, until=Step.STAGE)
    for number in range(4):
        assert fetched(lake, f"{topic}-{number}") == stored(live.broker.data, f"{topic}-{number}")
    assert noted.pauses
    assert noted.within_pauses() == []
    assert noted.opened == [("127.0.0.1", live.broker.port)] * 2  # of the plan, and of the fetch


def _folders(live: Live, *topics: str) -> list[str]:
    return [path.name for topic in topics for path in live.broker.data.glob(f"{topic}-*")]


@contextmanager
def _quota(live: Live, bytes_per_second: int) -> Iterator[None]:
    """A `consumer_byte_rate` for our client id."""
    connection = Connection(live.broker.port)
    try:
        _set_quota(connection, bytes_per_second)
        yield
    finally:
        _set_quota(connection, None)
        connection.close()


def _set_quota(connection: Connection, bytes_per_second: int | None) -> None:
    """Sets or removes the quota; returns once the broker describes it so."""
    request = Writer(flexible=False).count(1).count(1).text("client-id").text(CLIENT_ID).count(1)
    request.text("consumer_byte_rate").put("d??", bytes_per_second or 0, bytes_per_second is None, False)
    _, reply = connection.ask(ALTER_CLIENT_QUOTAS, 0, request)
    assert reply is not None
    assert struct.unpack_from(">iiih", reply)[3] == 0
    _await(lambda: _described_quota(connection) == bytes_per_second)


def _described_quota(connection: Connection) -> float | None:
    request = Writer(flexible=False).count(1).text("client-id").put("b", 0).text(CLIENT_ID).put("?", True)
    _, reply = connection.ask(DESCRIBE_CLIENT_QUOTAS, 0, request)
    assert reply is not None
    found = Reader(raw=reply, flexible=False, at=4)
    assert found.take("ih")[1] == 0
    found.text()
    for _ in range(max(found.count(), 0)):
        for _ in range(found.count()):
            found.text()
            found.text()
        for _ in range(found.count()):
            name, value = found.text(), float(found.take("d"))
            if name == "consumer_byte_rate":
                return value
    return None


def _await(is_so: Callable[[], bool]) -> None:
    """Until the broker has applied what its controller has accepted."""
    deadline = time.monotonic() + SECONDS
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.05)


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
    for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
        upsertion = UserScramCredentialUpsertion("ada", ScramCredentialInfo(mechanism, 4096), SECRET.encode())
        client.alter_user_scram_credentials([upsertion])["ada"].result(SECONDS)
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
    mine = AclBindingFilter(
        acl.restype,
        topic,
        acl.resource_pattern_type,
        acl.principal,
        acl.host,
        acl.operation,
        acl.permission_type,
    )
    _await(lambda: bool(client.describe_acls(mine).result(SECONDS)))
    _await(lambda: _scram_mechanisms(client) == 2)


def _scram_mechanisms(client: AdminClient) -> int:
    """How many mechanisms ada has a password for."""
    try:
        described = client.describe_user_scram_credentials(["ada"])
        assert isinstance(described, dict)
        return len(described["ada"].result(SECONDS).scram_credential_infos)
    except KafkaException:
        return 0


def _token(principal: str, *, seconds: int = 3600) -> str:
    """A token without a signature, which Kafka's own validator for tests accepts."""
    now = int(time.time())
    parts = {"alg": "none"}, {"sub": principal, "iat": now - 3600, "exp": now + seconds}
    return (
        ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts)
        + "."
    )


def _pickled_tasks(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The tasks of fetches as they would travel to an executor."""
    found: list[bytes] = []
    original = fetching.fetch_partitions

    def note(task: fetching.ClusterFetchTask) -> tuple[PartitionFetched, ...]:
        found.append(pickle.dumps(task))
        return original(task)

    monkeypatch.setattr(fetching, "fetch_partitions", note)
    return found


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
