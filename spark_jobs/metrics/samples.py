"""The samples of a run; a failed run has those of its finished steps."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time

from spark_jobs.config.audit import Severity
from spark_jobs.flow import Step
from spark_jobs.metrics import catalogue
from spark_jobs.metrics.catalogue import Metric
from spark_jobs.metrics.topic_verdicts import topic_verdicts
from spark_jobs.protocol.transaction_outcome import Outcome
from spark_jobs.protocol.verdict import Verdict
from spark_jobs.reporting.headline import quarantine, seconds_of
from spark_jobs.reporting.run_tables import RunTables
from spark_jobs.storage.ledger import LedgerLine, RunStatus
from spark_jobs.tables.admit import ADMITTED_PARTITIONS, GAPS, GapStatus
from spark_jobs.tables.audit import EXPECTATION_RESULTS
from spark_jobs.tables.materialise import TABLE_FILES, QuarantineKind
from spark_jobs.tables.resolve import RESOLVED_PARTITIONS


@dataclass(frozen=True, slots=True)
class Sample:
    """One number; `labels` are values in the order of the metric's label names."""

    metric: Metric
    value: float
    labels: tuple[str, ...] = ()


def samples_of(lines: Iterable[LedgerLine], run_id: str | None, tables: RunTables | None) -> list[Sample]:
    """Everything about the run of `run_id`, if there is one, and about the lake's last success."""
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
    yield Sample(catalogue.RUN_INFO, 1, (line.run_id, line.day.isoformat(), line.status.value))
    yield Sample(catalogue.RUN_SUCCESS, float(line.status is RunStatus.FINAL))
    yield Sample(catalogue.RUN_ATTEMPTS, line.attempts)
    if line.finished_at:
        yield Sample(catalogue.RUN_END, _seconds(line.finished_at))
    for step in line.steps:
        if (seconds := seconds_of(step)) is not None:
            yield Sample(catalogue.STEP_DURATION, seconds, (step.step.value,))


def _data(tables: RunTables) -> Iterator[Sample]:
    counts = {step: tables.counts(step) for step in Step}
    yield from _staged(counts[Step.STAGE])
    yield from _batches(tables)
    if counts[Step.RESOLVE]:
        yield from _by_name(catalogue.TRANSACTIONS, counts[Step.RESOLVE], Outcome)
    yield from _held_back(tables)
    if counts[Step.ADMIT]:
        yield from _gaps(tables)
    if counts[Step.MATERIALISE]:
        yield from _by_name(catalogue.QUARANTINED, quarantine(tables), QuarantineKind)
    if counts[Step.PUBLISH]:
        yield from _published(tables)
    yield from _expectations(tables)


def _staged(counts: Mapping[str, int]) -> Iterator[Sample]:
    names = {
        "bytes": catalogue.STAGED_BYTES,
        "objects": catalogue.STAGED_OBJECTS,
        "set_aside": catalogue.SET_ASIDE,
    }
    yield from (Sample(metric, counts[name]) for name, metric in names.items() if name in counts)


def _by_name(metric: Metric, counts: Mapping[str, int], names: Iterable[str]) -> Iterator[Sample]:
    """One sample per name, zeros included, to distinguish zero from missing."""
    yield from (Sample(metric, counts.get(name, 0), (str(name),)) for name in names)


def _batches(tables: RunTables) -> Iterator[Sample]:
    for topic, counts in sorted(topic_verdicts(tables).items()):
        yield from (Sample(catalogue.BATCHES, counts[name], (topic, name.value)) for name in Verdict)


def _held_back(tables: RunTables) -> Iterator[Sample]:
    lags: dict[str, int] = {}
    held: Counter[str] = Counter()
    for row in tables.rows(Step.RESOLVE, RESOLVED_PARTITIONS.file):
        lags[row["topic"]] = max(lags.get(row["topic"], 0), row["lag"])
        held[row["topic"]] += row["held_batches"]
    yield from (Sample(catalogue.LAG, lag, (topic,)) for topic, lag in sorted(lags.items()))
    yield from (Sample(catalogue.HELD_BATCHES, count, (topic,)) for topic, count in sorted(held.items()))


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
    yield from (Sample(catalogue.GAP_OFFSETS, count, (topic,)) for topic, count in sorted(offsets.items()))
    yield from (Sample(catalogue.BEHIND_GAPS, count, (topic,)) for topic, count in sorted(batches.items()))


def _published(tables: RunTables) -> Iterator[Sample]:
    rows: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for entry in tables.rows(Step.MATERIALISE, TABLE_FILES.file):
        if entry["topic"] is not None:
            rows[entry["topic"]] += entry["rows"]
            sizes[entry["topic"]] += entry["bytes"]
    yield from (Sample(catalogue.PUBLISHED_RECORDS, count, (topic,)) for topic, count in sorted(rows.items()))
    yield from (Sample(catalogue.PUBLISHED_BYTES, size, (topic,)) for topic, size in sorted(sizes.items()))


def _expectations(tables: RunTables) -> Iterator[Sample]:
    results = tables.rows(Step.AUDIT, EXPECTATION_RESULTS.file)
    if results:
        failed = Counter(row["severity"] for row in results if row["success"] is False)
        judged = (each for each in Severity if each is not Severity.OFF)
        yield from _by_name(catalogue.FAILED_EXPECTATIONS, failed, judged)


def _success(lines: tuple[LedgerLine, ...]) -> Iterator[Sample]:
    final = [line for line in lines if line.status is RunStatus.FINAL]
    ended = [line.finished_at for line in final if line.finished_at]
    if ended:
        yield Sample(catalogue.SUCCESS_END, max(map(_seconds, ended)))
    if final:
        yield Sample(catalogue.SUCCESS_RUN_DATE, _midnight(max(line.day for line in final)))


def _seconds(moment: str) -> float:
    return datetime.fromisoformat(moment).timestamp()


def _midnight(day: date) -> float:
    return datetime.combine(day, time(), UTC).timestamp()
