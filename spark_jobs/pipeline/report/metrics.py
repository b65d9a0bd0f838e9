"""Every metric with name, labels and meaning, and the samples of a run.

All are gauges. A run is an event with a size, not a process that counts up: each run replaces the values of
the previous one, and a repeated run sets its values again instead of adding them.
"""

import os
import re
import socket
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from spark_jobs.config.audit import Severity
from spark_jobs.config.settings import Address, Settings
from spark_jobs.flow import Step
from spark_jobs.kafka.producers.verdict import VERDICTS, Verdict
from spark_jobs.kafka.transactions.outcome import Outcome
from spark_jobs.lake.ledger import LedgerLine, RunStatus, list_runs
from spark_jobs.lake.object_store import ObjectStore
from spark_jobs.lake.parquet_file import iter_rows
from spark_jobs.lake.run_folder import RunFolder, read_inputs
from spark_jobs.lake.table_listing import final_listing
from spark_jobs.pipeline.report.freshness import FRESHNESS
from spark_jobs.pipeline.report.run_page import quarantine, seconds_of
from spark_jobs.pipeline.report.run_tables import RunTables
from spark_jobs.pipeline.report.site_files import SiteFiles
from spark_jobs.tables.admit import ADMITTED_PARTITIONS, GAPS, GapStatus
from spark_jobs.tables.audit import EXPECTATION_RESULTS
from spark_jobs.tables.deduplicate import DUPLICATE_COUNTS, DUPLICATE_FACTS, DuplicateKind
from spark_jobs.tables.materialise import QuarantineKind
from spark_jobs.tables.resolve import RESOLVED_PARTITIONS

MIXED = frozenset(group for group, size in Counter(each.group for each in VERDICTS).items() if size > 1)
"""Groups of several verdicts, whose counts are not broken down."""
SINGLE = {each.group: each for each in VERDICTS if each.group not in MIXED}
ESCAPED = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})
"""Topic names are foreign input: they must stay inside the quotes."""
PACKET_BYTES = 1432
"""Fits into one packet on common networks."""
UNSAFE = re.compile(r"[^A-Za-z0-9_-]")
"""Characters that StatsD reserves, and others that a topic's name may have."""
METRICS_KEY = "metrics/onceover.prom"
"""In the lake; always written."""
READABLE_BY_ALL = 0o644
"""The collector runs as another user."""


@dataclass(frozen=True, slots=True)
class Metric:
    """A name by Prometheus' conventions: prefix, thing, base unit; labels distinguish what can be summed."""

    name: str
    help: str
    labels: tuple[str, ...] = ()


RUN_INFO = Metric("onceover_run_info", "The last run; always 1.", ("run_id", "date", "status"))
RUN_SUCCESS = Metric("onceover_run_success", "1 if the last run is final, 0 if it failed or did not end.")
RUN_ATTEMPTS = Metric("onceover_run_attempts", "How often the last run was started.")
RUN_END = Metric("onceover_run_end_timestamp_seconds", "When the last run ended, also if it failed.")
SUCCESS_END = Metric("onceover_last_success_timestamp_seconds", "When a run last became final.")
SUCCESS_RUN_DATE = Metric(
    "onceover_last_success_run_date_timestamp_seconds",
    "Date of the newest final run, as its midnight in UTC.",
)
STEP_DURATION = Metric("onceover_step_duration_seconds", "How long a step of the last run took.", ("step",))
STAGED_BYTES = Metric("onceover_staged_bytes", "Bytes of the objects that the last run took.")
STAGED_OBJECTS = Metric("onceover_staged_objects", "Objects that the last run took.")
SET_ASIDE = Metric("onceover_set_aside_objects", "Objects that were set aside; a later run may take them.")
BATCHES = Metric("onceover_batches", "Batches of the last run by verdict.", ("topic", "verdict"))
PUBLISHED_RECORDS = Metric("onceover_published_records", "Rows that the last run added.", ("topic",))
PUBLISHED_BYTES = Metric("onceover_published_bytes", "Bytes of the files that hold them.", ("topic",))
QUARANTINED = Metric("onceover_quarantined_rows", "Rows of the last run in quarantine.", ("kind",))
DUPLICATES = Metric(
    "onceover_duplicate_records",
    "Records of the last run that are not published, because an earlier one has the same business id.",
    ("topic", "kind"),
)
TRANSACTIONS = Metric("onceover_transactions", "Transactions of the last run by outcome.", ("outcome",))
NEWEST_RECORD = Metric(
    "onceover_newest_record_timestamp_seconds", "Timestamp of the newest published record.", ("topic",)
)
FRESHNESS_OBJECTIVE = Metric(
    "onceover_freshness_objective_seconds",
    "How old the newest record may be; for topics with `freshness`.",
    ("topic",),
)
LAG = Metric(
    "onceover_last_stable_offset_lag",
    "Offsets between the last stable offset and the log's end: the largest of a topic's partitions.",
    ("topic",),
)
HELD_BATCHES = Metric("onceover_held_batches", "Batches held for a later run.", ("topic",))
GAP_OFFSETS = Metric(
    "onceover_gap_offsets", "Offsets that no copy has, with partitions held behind them.", ("topic",)
)
BEHIND_GAPS = Metric("onceover_behind_gap_batches", "Batches held behind missing offsets.", ("topic",))
FAILED_EXPECTATIONS = Metric(
    "onceover_failed_expectations", "Expectations that the last run did not meet.", ("severity",)
)

METRICS: tuple[Metric, ...] = (
    RUN_INFO,
    RUN_SUCCESS,
    RUN_ATTEMPTS,
    RUN_END,
    SUCCESS_END,
    SUCCESS_RUN_DATE,
    STEP_DURATION,
    STAGED_BYTES,
    STAGED_OBJECTS,
    SET_ASIDE,
    BATCHES,
    PUBLISHED_RECORDS,
    PUBLISHED_BYTES,
    QUARANTINED,
    DUPLICATES,
    TRANSACTIONS,
    NEWEST_RECORD,
    FRESHNESS_OBJECTIVE,
    LAG,
    HELD_BATCHES,
    GAP_OFFSETS,
    BEHIND_GAPS,
    FAILED_EXPECTATIONS,
)
"""In the order in which they are written."""


def topic_verdicts(tables: RunTables) -> dict[str, Counter[str]]:
    """Batches by topic and verdict, for every topic with objects in the run."""
    found: dict[str, Counter[str]] = {}
    for row in tables.rows(Step.ADMIT, ADMITTED_PARTITIONS.file):
        found.setdefault(row["topic"], Counter()).update(_verdicts(tables, row))
    return found


def _verdicts(tables: RunTables, row: Mapping[str, Any]) -> Mapping[str, int]:
    """Of one partition; its batches are read only if the counts of its groups do not give all verdicts."""
    if not any(row[group] for group in MIXED):
        return {verdict.value: row[group] for group, verdict in SINGLE.items()}
    counts: Counter[str] = Counter()
    for rows in iter_rows(tables.lake, tables.key(Step.ADMIT, row["batches"]), columns=["verdict"]):
        found: Any = pc.value_counts(rows.column("verdict"))
        names, numbers = found.field("values").to_pylist(), found.field("counts").to_pylist()
        counts.update(dict(zip(names, numbers, strict=True)))
    return counts


@dataclass(frozen=True, slots=True)
class Sample:
    """One number; `labels` are values in the order of the metric's label names."""

    metric: Metric
    value: float
    labels: tuple[str, ...] = ()


def samples_of(lines: Iterable[LedgerLine], run_id: str | None, tables: RunTables | None) -> list[Sample]:
    """Samples of the run `run_id`, if there is one, and of the last successful run.

    A failed run has samples of its finished steps only.
    """
    known = tuple(lines)
    line = next((each for each in known if each.run_id == run_id), None)
    run = [] if line is None or tables is None else [*_run(line), *_data(tables)]
    return [*run, *_success(known)]


def last_run(lines: Iterable[LedgerLine]) -> str | None:
    """The run that was started last, without running ones."""
    ended = (line for line in lines if line.status is not RunStatus.RUNNING)
    newest = max(ended, key=lambda line: line.started_at, default=None)
    return None if newest is None else newest.run_id


def _run(line: LedgerLine) -> Iterator[Sample]:
    yield Sample(RUN_INFO, 1, (line.run_id, line.day.isoformat(), line.status.value))
    yield Sample(RUN_SUCCESS, float(line.status is RunStatus.FINAL))
    yield Sample(RUN_ATTEMPTS, line.attempts)
    if line.finished_at:
        yield Sample(RUN_END, _seconds(line.finished_at))
    for step in line.steps:
        if (seconds := seconds_of(step)) is not None:
            yield Sample(STEP_DURATION, seconds, (step.step.value,))


def _data(tables: RunTables) -> Iterator[Sample]:
    counts = {step: tables.counts(step) for step in Step}
    yield from _staged(counts[Step.STAGE])
    yield from _batches(tables)
    if counts[Step.RESOLVE]:
        yield from _by_name(TRANSACTIONS, counts[Step.RESOLVE], Outcome)
    yield from _held_back(tables)
    if counts[Step.ADMIT]:
        yield from _gaps(tables)
    if counts[Step.MATERIALISE]:
        yield from _by_name(QUARANTINED, quarantine(tables), QuarantineKind)
    yield from _duplicates(tables)
    if counts[Step.PUBLISH]:
        yield from _published(tables)
    yield from _expectations(tables)


def _staged(counts: Mapping[str, int]) -> Iterator[Sample]:
    names = {
        "bytes": STAGED_BYTES,
        "objects": STAGED_OBJECTS,
        "set_aside": SET_ASIDE,
    }
    yield from (Sample(metric, counts[name]) for name, metric in names.items() if name in counts)


def _by_name(metric: Metric, counts: Mapping[str, int], names: Iterable[str]) -> Iterator[Sample]:
    """One sample per name, zeros included, to distinguish zero from missing."""
    yield from (Sample(metric, counts.get(name, 0), (str(name),)) for name in names)


def _batches(tables: RunTables) -> Iterator[Sample]:
    for topic, counts in sorted(topic_verdicts(tables).items()):
        yield from (Sample(BATCHES, counts[name], (topic, name.value)) for name in Verdict)


def _held_back(tables: RunTables) -> Iterator[Sample]:
    lags: dict[str, int] = {}
    held: Counter[str] = Counter()
    for row in tables.rows(Step.RESOLVE, RESOLVED_PARTITIONS.file):
        lags[row["topic"]] = max(lags.get(row["topic"], 0), row["lag"])
        held[row["topic"]] += row["held_batches"]
    yield from (Sample(LAG, lag, (topic,)) for topic, lag in sorted(lags.items()))
    yield from (Sample(HELD_BATCHES, count, (topic,)) for topic, count in sorted(held.items()))


def _gaps(tables: RunTables) -> Iterator[Sample]:
    """Of each topic that the run admitted or that has gaps, zeros included."""
    offsets: Counter[str] = Counter(
        {row["topic"]: 0 for row in tables.rows(Step.ADMIT, ADMITTED_PARTITIONS.file)}
    )
    batches = offsets.copy()
    for row in tables.rows(Step.ADMIT, GAPS.file):
        if row["status"] == GapStatus.OPEN:
            offsets[row["topic"]] += row["last_offset"] - row["first_offset"] + 1
            batches[row["topic"]] += row["held_batches"]
    yield from (Sample(GAP_OFFSETS, count, (topic,)) for topic, count in sorted(offsets.items()))
    yield from (Sample(BEHIND_GAPS, count, (topic,)) for topic, count in sorted(batches.items()))


def _duplicates(tables: RunTables) -> Iterator[Sample]:
    """Of each topic with a business id, zeros included."""
    found: Counter[tuple[str, str]] = Counter()
    for row in tables.rows(Step.DEDUPLICATE, DUPLICATE_COUNTS.file):
        found[row["topic"], row["kind"]] += row["duplicates"]
    for topic in sorted({row["topic"] for row in tables.rows(Step.DEDUPLICATE, DUPLICATE_FACTS.file)}):
        yield from (Sample(DUPLICATES, found[topic, kind], (topic, kind.value)) for kind in DuplicateKind)


def _published(tables: RunTables) -> Iterator[Sample]:
    rows: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for _, entry in final_listing(RunFolder(tables.lake, read_inputs(tables.lake, tables.run_id))):
        if entry.topic is not None:
            rows[entry.topic] += entry.rows
            sizes[entry.topic] += entry.bytes
    yield from (Sample(PUBLISHED_RECORDS, count, (topic,)) for topic, count in sorted(rows.items()))
    yield from (Sample(PUBLISHED_BYTES, size, (topic,)) for topic, size in sorted(sizes.items()))


def _expectations(tables: RunTables) -> Iterator[Sample]:
    results = tables.rows(Step.AUDIT, EXPECTATION_RESULTS.file)
    if results:
        failed = Counter(row["severity"] for row in results if row["success"] is False)
        judged = (each for each in Severity if each is not Severity.OFF)
        yield from _by_name(FAILED_EXPECTATIONS, failed, judged)


def _success(lines: tuple[LedgerLine, ...]) -> Iterator[Sample]:
    final = [line for line in lines if line.status is RunStatus.FINAL]
    ended = [line.finished_at for line in final if line.finished_at]
    if ended:
        yield Sample(SUCCESS_END, max(map(_seconds, ended)))
    if final:
        yield Sample(SUCCESS_RUN_DATE, _midnight(max(line.day for line in final)))


def _freshness(site: SiteFiles) -> Iterator[Sample]:
    """Of each topic in the lake, whether or not the last run brought something of it."""
    for row in (site.read_data(FRESHNESS) or {}).values():
        yield Sample(NEWEST_RECORD, row["newest"] / 1000, (row["name"],))
        if row["objective"] is not None:
            yield Sample(FRESHNESS_OBJECTIVE, row["objective"], (row["name"],))


def _seconds(moment: str) -> float:
    return datetime.fromisoformat(moment).timestamp()


def _midnight(day: date) -> float:
    return datetime.combine(day, time(), UTC).timestamp()


def exposition(samples: Iterable[Sample]) -> str:
    """The file's text: metrics in the catalogue's order, each with meaning and type before its samples."""
    ordered = sorted(samples, key=lambda sample: METRICS.index(sample.metric))
    lines = (
        line for metric, group in groupby(ordered, lambda each: each.metric) for line in _lines(metric, group)
    )
    return "".join(f"{line}\n" for line in lines)


def _lines(metric: Metric, samples: Iterable[Sample]) -> Iterator[str]:
    yield f"# HELP {metric.name} {metric.help}"
    yield f"# TYPE {metric.name} gauge"
    yield from (f"{metric.name}{_labels(sample)} {_number(sample.value)}" for sample in samples)


def _labels(sample: Sample) -> str:
    pairs = zip(sample.metric.labels, sample.labels, strict=True)
    inside = ",".join(f'{name}="{value.translate(ESCAPED)}"' for name, value in pairs)
    return f"{{{inside}}}" if inside else ""


def _number(value: float) -> str:
    """Whole numbers as such, so that large ones keep all their digits."""
    return str(int(value)) if value == int(value) else repr(value)


def send(samples: Iterable[Sample], address: Address) -> None:
    """Sends without waiting for an answer; no server needs to listen."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as outgoing:
        for packet in packets(map(gauge, (each for each in samples if each.metric is not RUN_INFO))):
            outgoing.sendto(packet, (address.host, address.port))


def gauge(sample: Sample) -> str:
    """`onceover.batches.orders.accepted:12|g`."""
    name = sample.metric.name.replace("onceover_", "onceover.", 1)
    parts = (name, *(UNSAFE.sub("_", value) for value in sample.labels))
    return f"{'.'.join(parts)}:{sample.value:.15g}|g"


def packets(lines: Iterable[str]) -> Iterator[bytes]:
    """Packets of as many lines as fit."""
    packet = b""
    for line in lines:
        more = line.encode("ascii")
        if packet and len(packet) + 1 + len(more) > PACKET_BYTES:
            yield packet
            packet = b""
        packet = packet + b"\n" + more if packet else more
    if packet:
        yield packet


def publish(settings: Settings, lake: ObjectStore, *, run_id: str | None) -> str:
    """Writes the metrics of `run_id`, else of the run started last; returns their address in the lake."""
    lines = list_runs(lake)
    chosen = run_id or last_run(lines)
    of_run = samples_of(lines, chosen, RunTables(lake, chosen) if chosen else None)
    samples = [*of_run, *_freshness(SiteFiles(lake))]
    text = exposition(samples).encode(errors="replace")  # a topic's name may be no text
    lake.put(METRICS_KEY, text)
    if settings.metrics.textfile is not None:
        replace_file(Path(settings.metrics.textfile), text)
    if settings.metrics.statsd is not None:
        send(samples, settings.metrics.statsd)
    return lake.url_of(METRICS_KEY)


def replace_file(path: Path, data: bytes) -> None:
    """Replaces the file atomically, because a collector may read it at any time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as unfinished:
        unfinished.write(data)
        os.fchmod(unfinished.fileno(), READABLE_BY_ALL)
    Path(unfinished.name).replace(path)
