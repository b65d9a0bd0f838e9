"""Lakes whose sites the browser opens: the sample's two runs and one that fails, and one full of malice."""

import json
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from io import StringIO
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console

from expectations.gate import AuditFailed
from spark_jobs.config.load import load_settings, parse_settings
from spark_jobs.config.settings import Settings
from spark_jobs.flow import Step
from spark_jobs.kafka.formats.batch_builder import build_batch
from spark_jobs.kafka.formats.records import Record
from spark_jobs.kafka.topic_partition import TopicPartition
from spark_jobs.lake.ledger import Ledger
from spark_jobs.lake.run_folder import EMPTY_STATE, RunInputs
from spark_jobs.lake.stores import open_lake
from spark_jobs.pipeline.report.site_files import DASHBOARD
from spark_jobs.pipeline.report.step import report
from spark_jobs.progress import RunProgress
from spark_jobs.run import execute_run
from spark_jobs.sample.broker.coordinator import TransactionCoordinator
from spark_jobs.sample.files import CONFIG, write_sample
from spark_jobs.sample.story import RUN_DATES
from tests.in_process import InProcess
from tests.kafka.txn_cluster import TV2, Cluster, Producer
from tests.pipeline.resolve.run_lake import COPY_TIMES, FIRST_DAY, RunLake, end_of_day

STRICT_AUDIT = """
audit:
  earliest_timestamp: 2026-06-01
  severities: {timestamps_are_in_range: critical}
"""
FAILED_RUN_DATE = RUN_DATES[-1] + timedelta(days=1)
COPIED = """
lake: lake
sources: [{name: broker, kind: broker-log, root: broker}]
audit: {severities: {volume_is_as_usual: "off"}}
"""
BUSY_TOPIC, IDLE_TOPIC = "busy", "idle"
TIMELY_TOPIC, OBJECTIVE = "visits", timedelta(hours=26)
HELD = """
lake: lake
sources: [{name: broker, kind: broker-log, root: broker}]
"""
HELD_TOPIC, MISSING = "holed", range(1, 5)
PLAIN_TOPIC = "orders"
HOSTILE_TOPIC = "\"'><script>hacked=1</script>\u202e注文&lt;../.."
HOSTILE_KEY = "</script><img src=x onerror=hacked=1>\u2028'\""
HOSTILE_ID = "</td><svg onload=hacked=1>`${hacked=1}`"
HOSTILE_ERROR = (
    "no luck: <script>hacked=1</script><a href='javascript:hacked=1'>here</a>\n]]></pre><b>bold</b>"
)
FORGOTTEN_PRODUCER = 777_777
HOSTILE_RUN_DATE = FIRST_DAY + timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A lake with its site."""

    settings: Settings
    run_ids: tuple[str, ...]

    @property
    def directory(self) -> Path:
        return Path(self.settings.lake, DASHBOARD)


def published_lake(place: Path) -> Shown:
    """The sample's two runs, both published."""
    write_sample(place)
    objective = f"topics:\n  {TIMELY_TOPIC}: {{freshness: {OBJECTIVE // timedelta(hours=1)}h}}\n"
    (place / CONFIG).write_text((place / CONFIG).read_text().replace("topics:\n", objective))
    settings = load_settings(place / CONFIG)
    return Shown(settings=settings, run_ids=tuple(_run(settings, run_date) for run_date in RUN_DATES))


def sample_lake(place: Path) -> Shown:
    """Two runs that are published, and one that the audit stops."""
    published = published_lake(place)
    _one_more_batch(place)
    strict = parse_settings((place / CONFIG).read_text() + STRICT_AUDIT, name=CONFIG, base=place)
    try:
        _run(strict, FAILED_RUN_DATE)
    except AuditFailed:
        return published
    raise AssertionError("the third run passed its audit")


def copied_lake(place: Path) -> Shown:
    """Two replicas that are copied twice: between the copies only one of two topics gets a batch."""
    settings = parse_settings(COPIED, name=CONFIG, base=place)
    replicas = (place / "broker" / "one", place / "broker" / "two")
    for replica in replicas:
        _append(replica / f"{BUSY_TOPIC}-0", 0)
        _append(replica / f"{IDLE_TOPIC}-0", 0)
    run_ids = [_run(settings, FIRST_DAY)]
    for replica in replicas:
        _append(replica / f"{BUSY_TOPIC}-0", 1)
    run_ids.append(_run(settings, FIRST_DAY + timedelta(days=1)))
    return Shown(settings=settings, run_ids=tuple(run_ids))


def held_lake(place: Path) -> Shown:
    """A copy that lacks offsets between its two segments: a partition is held behind them."""
    settings = parse_settings(HELD, name=CONFIG, base=place)
    partition = place / "broker" / "one" / f"{HELD_TOPIC}-0"
    for offset in (MISSING.start - 1, MISSING.stop):
        _append(partition, offset, segment=offset)
    return Shown(settings=settings, run_ids=(_run(settings, FIRST_DAY),))


def _append(directory: Path, offset: int, *, segment: int = 0) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    records = [Record(key=b"k", value=b"v")]
    with (directory / f"{segment:020d}.log").open("ab") as log:
        log.write(
            build_batch(
                records=records,
                base_offset=offset,
                base_timestamp=end_of_day(0) - 60_000,
                partition_leader_epoch=0,
            )
        )


def _one_more_batch(place: Path) -> None:
    noon = datetime(FAILED_RUN_DATE.year, FAILED_RUN_DATE.month, FAILED_RUN_DATE.day, 12, tzinfo=UTC)
    record = Record(key=None, value=json.dumps({"visitor": 1, "page": "home", "visit": 1}).encode())
    data = build_batch(
        records=[record],
        base_timestamp=int(noon.timestamp() * 1000),
        producer_id=999_999,
        producer_epoch=0,
        base_sequence=0,
    )
    file = place / "gateway" / f"dt={FAILED_RUN_DATE}" / "visits-0" / "0000.batches"
    file.parent.mkdir(parents=True)
    file.write_bytes(data)


def hostile_lake(place: Path) -> Shown:
    """Names, keys, ids and errors that try to become markup or script; the last run failed.

    No run of today takes a topic of such a name, so the name comes into the tables afterwards.
    """
    run_dates, partition = RunLake(place), TopicPartition(PLAIN_TOPIC, 0)
    coordinator = TransactionCoordinator(max_timeout_ms=2**31 - 1)
    cluster = Cluster(now=end_of_day(0) - 60_000, coordinator=coordinator, logs={partition: []})
    producer = Producer(HOSTILE_ID, TV2)
    cluster.init(producer)
    cluster.produce(producer, partition)
    run_dates.copy_logs(cluster.logs, cluster.entries)
    _keyed_records(place / "broker")
    _forgotten_transaction(place / "broker")
    run_id = _run(run_dates.settings, FIRST_DAY)
    _rename_topic(Path(run_dates.settings.lake, "runs", run_id))
    _fail(run_dates.settings, HOSTILE_RUN_DATE, HOSTILE_ERROR)
    report(run_dates.settings, run_id=run_id)
    return Shown(settings=run_dates.settings, run_ids=(run_id,))


def _keyed_records(broker: Path) -> None:
    records = [Record(offset_delta=n, key=HOSTILE_KEY.encode(), value=b"v") for n in range(3)]
    data = build_batch(records=records, base_timestamp=end_of_day(0) - 60_000, partition_leader_epoch=0)
    file = broker / f"{PLAIN_TOPIC}-1" / "00000000000000000000.log"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)


def _forgotten_transaction(broker: Path) -> None:
    """Data in a transaction that the coordinator knows nothing of, though its log was copied later."""
    data = build_batch(
        records=[Record(value=b"v")],
        base_timestamp=end_of_day(0) - 7_200_000,
        partition_leader_epoch=0,
        producer_id=FORGOTTEN_PRODUCER,
        producer_epoch=3,
        base_sequence=0,
        is_transactional=True,
    )
    file = broker / f"{PLAIN_TOPIC}-2" / "00000000000000000000.log"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)
    times = COPY_TIMES.format(data=f"{FIRST_DAY}T23:59:58Z", coordinator=f"{FIRST_DAY}T23:59:59Z")
    (broker / "onceover-copy.json").write_text(times)


def _rename_topic(run_folder: Path) -> None:
    for path in run_folder.rglob("*.parquet"):
        table = pq.read_table(path)
        if "topic" in table.column_names:
            place = table.schema.get_field_index("topic")
            names = [HOSTILE_TOPIC if name == PLAIN_TOPIC else name for name in table["topic"].to_pylist()]
            pq.write_table(
                table.set_column(place, table.schema.field(place), pa.array(names, pa.string())), path
            )


def _fail(settings: Settings, day: date, message: str) -> None:
    inputs = RunInputs(day=day, manifest="0" * 64, config=settings.digest, state_in=EMPTY_STATE)
    ledger = Ledger(open_lake(settings))
    ledger.started(inputs)
    ledger.step_started(inputs.run_id, Step.INDEX)
    ledger.failed(inputs.run_id, message)


def _run(settings: Settings, run_date: date) -> str:
    progress = RunProgress(Console(file=StringIO()))
    return execute_run(
        settings, run_date, until=Step.REPORT, spark=InProcess("local[2]", {}), progress=progress
    ).run_id
