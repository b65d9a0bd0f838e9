"""A topic that is deleted and recreated: its logs are never merged, and each is published whole, once."""

import shutil
from collections import Counter
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

import pytest
from rich.console import Console

from spark_jobs.config.load import parse_settings
from spark_jobs.config.settings import Settings
from spark_jobs.flow import Step
from spark_jobs.kafka.formats.checkpoints import PartitionMetadata, write_partition_metadata
from spark_jobs.kafka.topic_partition import TopicPartition
from spark_jobs.lake.chain import read_chain
from spark_jobs.lake.errors import TopicRecreated
from spark_jobs.lake.iceberg.catalog import open_catalog
from spark_jobs.lake.stores import open_lake
from spark_jobs.operations.backfill import run_backfill_day
from spark_jobs.operations.rollback import roll_back
from spark_jobs.pipeline.stage.backfill_request import BackfillRequest
from spark_jobs.progress import RunProgress
from spark_jobs.run import RunOutcome, execute_run
from spark_jobs.sample.cluster import SampleCluster, SampleProducer
from tests.e2e.tables import own_rows
from tests.in_process import InProcess
from tests.pipeline.batches import NOON

OLD, NEW, PAID, COORDINATOR = (
    "25SNuNZhRx2La2_fVdm_UQ",
    "Q6qNlyVoRc-LPQhzkpBTGA",
    "7rEFjEWzTDyAZs0mjAzJbw",
    "ko2xZTqLQs6YGhh0nPEaPA",
)
ORDERS = [TopicPartition("orders", number) for number in range(2)]
PAYMENTS = TopicPartition("payments", 0)
HOUR = 3_600_000
CONFIG = """
lake: lake
sources:
  - name: kafka
    kind: broker-log
    root: copies
"""
NEW_TABLE = CONFIG + "topics: {orders: {on_recreate: new_table}}\n"


def day(number: int) -> date:
    return date(2024, 5, number)


@dataclass
class Kafka:
    """A cluster whose orders can be deleted and recreated, and a shop that writes to it."""

    place: Path
    cluster: SampleCluster = field(
        default_factory=lambda: SampleCluster(now=NOON, logged_topics=frozenset({"orders", "payments"}))
    )
    ids: dict[str, str] = field(
        default_factory=lambda: {"orders": OLD, "payments": PAID, "__transaction_state": COORDINATOR}
    )
    sent: int = 0

    def __post_init__(self) -> None:
        self.shop = SampleProducer(self.cluster, "shop", transactional_id="shop")

    def sell(self, count: int, *, commit: bool = True) -> list[bytes]:
        """Transactions over all partitions, ended in the same way; the values that they wrote."""
        before = self.sent
        for _ in range(count):
            self.begin()
            self.cluster.now += 1000
            (self.shop.commit if commit else self.shop.abort)()
        return [b'{"order": %d}' % number for number in range(before, self.sent)]

    def begin(self) -> None:
        self.cluster.now += 1000
        for partition in (*ORDERS, PAYMENTS):
            self.shop.send(partition, [(None, {"order": self.sent})])
        self.sent += 1

    def recreate(self, topic_id: str = NEW) -> None:
        """Delete the topic and recreate it: offsets begin at 0 again."""
        self.cluster.now += HOUR
        self.ids["orders"] = topic_id
        for partition in ORDERS:
            del self.cluster.logs[partition]

    def copy(self, replica: str = "one", *, with_ids: bool = True) -> Path:
        """What `rsync --delete` leaves."""
        directory = self.place / "copies" / replica
        shutil.rmtree(directory, ignore_errors=True)
        for partition, log in self.cluster.logs.items():
            own = directory / str(partition)
            own.mkdir(parents=True)
            for name, data in log.files().items():
                (own / name).write_bytes(data)
            if with_ids:
                metadata = PartitionMetadata(topic_id=self.ids[partition.topic])
                (own / "partition.metadata").write_bytes(write_partition_metadata(metadata))
        return directory

    def settings(self, config: str = CONFIG) -> Settings:
        return parse_settings(config, name="test.yaml", base=self.place)

    def run(self, number: int, config: str = CONFIG) -> RunOutcome:
        progress = RunProgress(Console(quiet=True))
        return execute_run(
            self.settings(config), day(number), until=Step.PUBLISH, spark=InProcess(), progress=progress
        )

    def tables(self) -> dict[str, list[bytes]]:
        """The values of every topic's table, sorted, by the log that the table is of."""
        settings = self.settings()
        with open_catalog(settings) as catalog:
            tables = [catalog.load_table(name) for name in catalog.list_tables(settings.catalog.topics)]
            return {
                table.properties["onceover.topic"]: sorted(
                    row["value"] for row in table.scan().to_arrow().to_pylist()
                )
                for table in tables
            }

    def verdicts(self, topic: str) -> Counter[str]:
        rows = own_rows(self.settings(), "batches")
        return Counter(row["verdict"] for row in rows if row["topic"] == topic)

    def outcomes(self) -> Counter[tuple[str, tuple[str, ...]]]:
        rows = own_rows(self.settings(), "transactions")
        return Counter((row["outcome"], tuple(row["partitions_found"])) for row in rows)


@pytest.fixture
def kafka(tmp_path: Path) -> Kafka:
    return Kafka(tmp_path)


def test_a_run_stops_where_a_topic_was_recreated_and_nothing_is_mixed(kafka: Kafka) -> None:
    old = kafka.sell(5)
    kafka.copy()
    kafka.run(1)
    before, chain = kafka.tables(), read_chain(open_lake(kafka.settings()))
    kafka.recreate()
    kafka.sell(9)
    kafka.copy()
    with pytest.raises(TopicRecreated) as raised:
        kafka.run(2)
    for words in (
        "orders: the topic was deleted and recreated",
        f"Since the run of 2024-05-01 its topic id was {OLD}, now it is {NEW} in kafka/one/orders-0",
        "topics: {orders: {on_recreate: new_table}}",
        "topics: {exclude: [orders]}",
    ):
        assert words in str(raised.value)
    assert not raised.value.transient
    assert kafka.tables() == before == {"orders": sorted(old * 2), "payments": sorted(old)}
    assert read_chain(open_lake(kafka.settings())) == chain


def test_the_topic_can_be_left_out_instead(kafka: Kafka) -> None:
    old = kafka.sell(2)
    kafka.copy()
    kafka.run(1)
    kafka.recreate()
    new = kafka.sell(3)
    kafka.copy()
    kafka.run(2, CONFIG + "    topics: {exclude: [orders]}\n")
    assert kafka.tables() == {"orders": sorted(old * 2), "payments": sorted(old + new)}


def test_with_a_table_of_its_own_both_logs_are_whole(kafka: Kafka) -> None:
    old = kafka.sell(5)
    kafka.sell(1, commit=False)
    kafka.copy()
    kafka.run(1)
    kafka.recreate()
    new = kafka.sell(9)
    kafka.sell(2, commit=False)
    kafka.copy()
    outcome = kafka.run(2, NEW_TABLE)
    assert kafka.tables() == {
        "orders": sorted(old * 2),
        "orders~2": sorted(new * 2),
        "payments": sorted(old + new),
    }
    assert kafka.verdicts("orders~2") == {"accepted": 44}
    assert kafka.verdicts("orders") == {"accepted": 24}
    in_old = ("orders-0", "orders-1", "payments-0")
    in_new = ("orders~2-0", "orders~2-1", "payments-0")
    assert kafka.outcomes() == {
        ("committed", in_old): 5,
        ("aborted", in_old): 1,
        ("committed", in_new): 9,
        ("aborted", in_new): 2,
    }
    rows = own_rows(kafka.settings(), "transactions")
    assert not any(row["markers_missing"] for row in rows)
    assert all(set(row["partitions_expected"]) == set(row["partitions_found"]) for row in rows)
    rebuilt = next(done for done in outcome.done if done.step is Step.REBUILD)
    assert "messages.json" in [output.path for output in rebuilt.outputs]


def test_later_runs_go_on_with_the_new_log_and_need_no_choice(kafka: Kafka) -> None:
    old = kafka.sell(3)
    kafka.copy()
    kafka.run(1)
    kafka.recreate()
    new = kafka.sell(2)
    kafka.copy()
    kafka.run(2, NEW_TABLE)
    new += kafka.sell(4)
    kafka.copy()
    kafka.run(3)
    assert kafka.tables() == {
        "orders": sorted(old * 2),
        "orders~2": sorted(new * 2),
        "payments": sorted(old + new),
    }
    kafka.recreate("Ai1bOKTzQ-e1EJ3YgGXvUA")
    newest = kafka.sell(1)
    kafka.copy()
    with pytest.raises(TopicRecreated, match=f"Since the run of 2024-05-02 its topic id was {NEW}"):
        kafka.run(4)
    kafka.run(4, NEW_TABLE)
    assert kafka.tables()["orders~3"] == sorted(newest * 2)
    assert kafka.tables()["orders~2"] == sorted(new * 2)


def test_the_coordinator_decides_in_the_log_that_holds_the_data(kafka: Kafka) -> None:
    """The copy was made before markers came: only the coordinator's log has the outcomes."""
    kafka.sell(1)
    kafka.begin()
    kafka.copy()
    kafka.run(1)
    kafka.cluster.unreachable.update(ORDERS)
    kafka.shop.commit()
    kafka.recreate()
    kafka.cluster.unreachable.clear()
    second = SampleProducer(kafka.cluster, "till", transactional_id="till")
    kafka.shop = second
    kafka.begin()
    kafka.cluster.unreachable.update(ORDERS)
    second.commit()
    kafka.copy()
    kafka.run(2, NEW_TABLE)
    assert kafka.tables() == {
        "orders": sorted([b'{"order": 0}', b'{"order": 1}'] * 2),
        "orders~2": [b'{"order": 2}'] * 2,
        "payments": [b'{"order": 0}', b'{"order": 1}', b'{"order": 2}'],
    }


def test_a_stale_replica_of_the_old_log_is_no_copy_of_the_new_one(kafka: Kafka) -> None:
    old = kafka.sell(3)
    kafka.copy("one")
    kafka.copy("two")
    kafka.run(1)
    kafka.recreate()
    new = kafka.sell(2)
    kafka.copy("one")
    with pytest.raises(TopicRecreated, match="in kafka/one/orders-0"):
        kafka.run(2)
    kafka.run(2, NEW_TABLE)
    assert kafka.verdicts("orders~2") == {"accepted": 8}
    assert set(kafka.verdicts("orders")) == {"accepted", "overlap"}
    assert kafka.tables()["orders~2"] == sorted(new * 2)
    assert kafka.tables()["orders"] == sorted(old * 2)


DATED = """
lake: lake
sources:
  - {name: kafka, kind: broker-log, root: copies, dates: dt=%Y-%m-%d}
topics: {orders: {on_recreate: new_table}}
"""


def test_a_backfill_that_adds_a_log_in_between_renumbers_the_later_one(kafka: Kafka) -> None:
    """The copy of the second day comes late: its log is the second one, that of the third day the third."""
    first = kafka.sell(2)
    kafka.copy(f"dt={day(1)}")
    kafka.run(1, DATED)
    kafka.recreate("Ai1bOKTzQ-e1EJ3YgGXvUA")
    second = kafka.sell(3)
    late = kafka.copy("late")
    kafka.recreate(NEW)
    third = kafka.sell(4)
    late.rename(kafka.place / "late")
    kafka.copy(f"dt={day(3)}")
    kafka.run(3, DATED)
    assert kafka.tables()["orders~2"] == sorted(third * 2)
    (kafka.place / "late").rename(kafka.place / "copies" / f"dt={day(2)}")
    request = BackfillRequest(first=day(2), last=day(2))
    for number in (2, 3):
        run_backfill_day(
            kafka.settings(DATED),
            day(number),
            request,
            spark=InProcess(),
            progress=RunProgress(Console(quiet=True)),
        )
    tables = kafka.tables()
    assert tables["orders"] == sorted(first * 2)
    assert tables["orders~2"] == sorted(second * 2)
    assert tables["orders~3"] == sorted(third * 2)


def test_a_rollback_takes_the_new_log_back_and_the_run_repeats(kafka: Kafka) -> None:
    old = kafka.sell(3)
    kafka.copy()
    kafka.run(1)
    kafka.recreate()
    new = kafka.sell(2)
    kafka.copy()
    first = kafka.run(2, NEW_TABLE)
    roll_back(kafka.settings(), first.run_id)
    assert {topic: values for topic, values in kafka.tables().items() if values} == {
        "orders": sorted(old * 2),
        "payments": sorted(old),
    }
    again = kafka.run(2, NEW_TABLE)
    assert again.run_id == first.run_id
    assert kafka.tables()["orders~2"] == sorted(new * 2)


def test_another_coordinator_log_is_another_cluster(kafka: Kafka) -> None:
    kafka.sell(1)
    kafka.copy()
    kafka.run(1)
    kafka.ids["__transaction_state"] = NEW
    kafka.copy()
    with pytest.raises(TopicRecreated, match="means another cluster, or one that was set up again"):
        kafka.run(2, CONFIG + "topics: {'*': {on_recreate: new_table}}\n")


def test_segments_that_a_copy_has_left_of_the_deleted_log_are_refused(kafka: Kafka) -> None:
    kafka.sell(120)
    copy = kafka.copy()
    segments = sorted((copy / "orders-0").glob("*.log"))
    assert len(segments) > 1
    left_over = segments[1].read_bytes()
    kafka.run(1)
    kafka.recreate()
    new = kafka.sell(2)
    kafka.copy()
    for data in (left_over, left_over + left_over[:61]):
        segments[1].write_bytes(data)
        with pytest.raises(TopicRecreated, match="1 segments of the deleted log: kafka/one/orders-0/0"):
            kafka.run(2, NEW_TABLE)
    segments[1].unlink()
    kafka.run(2, NEW_TABLE)
    assert kafka.tables()["orders~2"] == sorted(new * 2)


def test_a_lake_without_ids_adopts_them(kafka: Kafka) -> None:
    old = kafka.sell(2)
    kafka.copy(with_ids=False)
    kafka.run(1)
    new = kafka.sell(2)
    kafka.copy()
    kafka.run(2)
    newer = kafka.sell(2)
    kafka.copy(with_ids=False)
    kafka.run(3)
    assert kafka.tables() == {
        "orders": sorted((old + new + newer) * 2),
        "payments": sorted(old + new + newer),
    }
