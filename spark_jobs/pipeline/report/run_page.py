"""The files of one run: its line in the overview, its page, topics, producers, transactions, batches."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from datetime import datetime

from spark_jobs.config.settings import Settings
from spark_jobs.config.sources import Source
from spark_jobs.flow import OPTIONAL, STEPS, Step
from spark_jobs.kafka.producers.verdict import Verdict
from spark_jobs.kafka.transactions.outcome import Outcome
from spark_jobs.lake.ledger import LedgerLine, RunStatus, StepLine
from spark_jobs.lake.manifest import Manifest, ManifestEntry, StagedObjects, read_run_manifest
from spark_jobs.lake.parquet_file import iter_rows
from spark_jobs.lake.run_folder import MANIFEST, MESSAGES
from spark_jobs.pipeline.report.explorer import explorer_files
from spark_jobs.pipeline.report.freshness import newest_records
from spark_jobs.pipeline.report.run_tables import Producers, Row, RunTables
from spark_jobs.pipeline.report.site_files import NamedData, SiteFiles
from spark_jobs.pipeline.report.topics import key_skews, partition_files, partition_views, topic_files
from spark_jobs.pipeline.report.transactions_page import producer_view, transaction_view
from spark_jobs.sources.broker_files import copied_partitions
from spark_jobs.tables.admit import GAPS, GapStatus
from spark_jobs.tables.audit import EXPECTATION_RESULTS
from spark_jobs.tables.deduplicate import DUPLICATE_COUNTS, DUPLICATE_FACTS
from spark_jobs.tables.materialise import QUARANTINE
from spark_jobs.tables.rebuild import STATE_ORIGINS
from spark_jobs.tables.resolve import RESOLVED_PARTITIONS

LONGEST_MESSAGE = 2000
MOST_NAMES = 3


def headline(line: LedgerLine, tables: RunTables) -> Row:
    """Everything about the run that fits in a line; counts are missing where the run did not get to them."""
    counts = {step.step: step.counts for step in line.steps}
    admitted, resolved = counts.get(Step.ADMIT, {}), counts.get(Step.RESOLVE, {})
    return {
        "id": line.run_id,
        "day": line.day.isoformat(),
        "status": line.status.value,
        "started": line.started_at,
        "finished": line.finished_at,
        "seconds": sum(filter(None, map(seconds_of, line.steps))),
        "attempts": line.attempts,
        "message": line.message[:LONGEST_MESSAGE],
        "reason": line.reason[:LONGEST_MESSAGE],
        "step": line.steps[-1].step.value if line.steps else Step.STAGE.value,
        "published": bool(counts.get(Step.PUBLISH)),
        "bytes": tables.counts(Step.STAGE).get("bytes"),
        "batches": admitted.get("batches"),
        "records": _records(counts),
        "verdicts": {verdict.value: admitted[verdict] for verdict in Verdict if admitted.get(verdict)},
        "outcomes": {outcome.value: resolved[outcome] for outcome in Outcome if resolved.get(outcome)},
        "transactions": resolved.get("transactions"),
        **lag(tables),
        **gaps(tables),
        "quarantine": quarantine(tables),
        **expectations(tables),
    }


def _records(counts: Mapping[Step, Mapping[str, int]]) -> int | None:
    """Records to publish; those that `deduplicate` set aside do not count."""
    records = counts.get(Step.MATERIALISE, {}).get("records")
    duplicates = counts.get(Step.DEDUPLICATE, {}).get("duplicates", 0)
    return None if records is None else records - duplicates


def seconds_of(step: StepLine) -> float | None:
    """How long the step took; None while it is not done."""
    if not step.finished_at:
        return None
    started, finished = map(datetime.fromisoformat, (step.started_at, step.finished_at))
    return round((finished - started).total_seconds(), 3)


def lag(tables: RunTables) -> Row:
    """How far readers are behind, because transactions are open."""
    table = tables.table(Step.RESOLVE, RESOLVED_PARTITIONS.file)
    if table is None or not table.num_rows:
        return {}
    lags = table.column("lag").to_numpy()
    held = table.column("held_batches").to_numpy()
    return {"lag": int(lags.sum()), "lagging": int((lags > 0).sum()), "held": int(held.sum())}


def gaps(tables: RunTables) -> Row:
    """How many partitions are held behind missing offsets, and the first of them; nothing without any."""
    rows = [row for row in tables.rows(Step.ADMIT, GAPS.file) if row["status"] == GapStatus.OPEN]
    if not rows:
        return {}
    held = dict.fromkeys(f"{row['topic']}-{row['partition']}" for row in rows)
    more = f" and {len(held) - MOST_NAMES} more" if len(held) > MOST_NAMES else ""
    return {
        "gaps": {
            "partitions": len(held),
            "offsets": sum(row["last_offset"] - row["first_offset"] + 1 for row in rows),
            "where": ", ".join(list(held)[:MOST_NAMES]) + more,
        }
    }


def quarantine(tables: RunTables) -> dict[str, int]:
    """Rows in quarantine by kind."""
    found: Counter[str] = Counter()
    for entry in tables.table_files(Step.MATERIALISE):
        if entry["topic"] is None and entry["table"] == QUARANTINE.name:
            key = tables.key(Step.MATERIALISE, entry["file"])
            for rows in iter_rows(tables.lake, key, columns=["kind"]):
                found.update(map(str, rows.column("kind").to_pylist()))
    return dict(found)


def expectations(tables: RunTables) -> Row:
    """How many were evaluated, and how many failed."""
    table = tables.table(Step.AUDIT, EXPECTATION_RESULTS.file, ["severity", "success"])
    if table is None:
        return {}
    evaluated = [row for row in table.to_pylist() if row["success"] is not None]
    failed = Counter(row["severity"] for row in evaluated if not row["success"])
    return {"expectations": len(evaluated), "critical": failed["critical"], "warnings": failed["warning"]}


MOST_ORIGINS = 300
MOST_SET_ASIDE = 50
MOST_PRODUCERS = 200
MOST_GAPS = 200
SHOWN_OF_GAP = (
    "topic", "partition", "first_offset", "last_offset", "status", "found_on", "held_batches", "before",
    "after",
)  # fmt: skip
ID_COUNTS = ("records", "duplicates", "null_ids", "unusable_ids")
LONGEST_TEXT = 500
DOCS = "docs"
STYLE = "assets/docs.css"
_INLINE_STYLE = re.compile(rb"<style>(.*?)</style>", re.DOTALL)


def run_view(line: LedgerLine, tables: RunTables) -> Row:
    """Everything that is not in the run's headline."""
    return {
        "id": line.run_id,
        "steps": list(_steps(line, tables)),
        "inputs": {
            "manifest": line.manifest,
            "config": line.config,
            "state_in": line.state_in,
            **_staged(tables),
        },
        "gaps": _gaps(tables),
        "origins": _origins(tables),
        "expectations": [_expectation(row) for row in tables.rows(Step.AUDIT, EXPECTATION_RESULTS.file)],
        **duplicates_of(tables),
    }


def duplicates_of(tables: RunTables) -> Row:
    """Duplicates by business id: by topic, and by producer; absent in a run without `deduplicate`."""
    facts = tables.rows(Step.DEDUPLICATE, DUPLICATE_FACTS.file)
    if not facts:
        return {}
    topics: dict[str, Counter[str]] = defaultdict(Counter)
    for row in facts:
        topics[row["topic"]].update({name: row[name] for name in ID_COUNTS})
    producers = tables.rows(Step.DEDUPLICATE, DUPLICATE_COUNTS.file)
    producers.sort(key=lambda row: (-row["duplicates"], row["topic"], row["producer_id"], row["kind"]))
    return {
        "duplicates": {
            "topics": [[topic, *(counts[name] for name in ID_COUNTS)] for topic, counts in topics.items()],
            "producers": producers[:MOST_PRODUCERS],
            "count": len(producers),
        }
    }


def _steps(line: LedgerLine, tables: RunTables) -> Iterator[Row]:
    """The steps in order, optional ones where the run has them; `report` itself has no duration."""
    lines = {step.step: step for step in line.steps}
    for step in (each for each in STEPS if each not in OPTIONAL or each in lines):
        yield {
            "step": step.value,
            "status": _status(line, step, lines.get(step), tables),
            "started": lines[step].started_at if step in lines else None,
            "seconds": seconds_of(lines[step]) if step in lines else None,
            "counts": lines[step].counts if step in lines else tables.counts(step),
            "messages": [text[:LONGEST_TEXT] for text in tables.json(step, MESSAGES) or ()],
        }


def _status(line: LedgerLine, step: Step, found: StepLine | None, tables: RunTables) -> str:
    if step is Step.REPORT:
        return "done"
    if found is None:
        return "done" if step is Step.STAGE and tables.has(step, MANIFEST) else "not reached"
    if found.finished_at:
        return "done"
    return "failed" if line.status is RunStatus.FAILED else line.status.value


def _staged(tables: RunTables) -> Row:
    """Objects and bytes by source, and what was set aside."""
    if not tables.has(Step.STAGE, MANIFEST):
        return {"sources": [], "set_aside": [], "set_aside_count": 0}
    manifest = read_run_manifest(tables.lake, tables.run_id)
    objects = Counter((entry.source, _role(entry)) for entry in manifest.entries)
    size: Counter[tuple[str, str]] = Counter()
    newest: dict[tuple[str, str], int] = {}
    for entry in manifest.entries:
        key = entry.source, _role(entry)
        size[key] += entry.size
        newest[key] = max(newest.get(key, 0), entry.copied_at)
    return {
        "sources": [[*key, count, size[key], newest[key]] for key, count in sorted(objects.items())],
        "set_aside": [
            [f"{each.source}/{each.path}", each.detail] for each in manifest.problems[:MOST_SET_ASIDE]
        ],
        "set_aside_count": len(manifest.problems),
    }


def source_view(settings: Settings, source: Source, manifest: Manifest) -> Row:
    """What a run has read of a source; copy times in ms since 1970, None without `onceover-copy.json`."""
    entries = [entry for entry in manifest.entries if entry.source == source.name]
    copied = copied_partitions(entries, StagedObjects(settings))
    return {
        "name": source.name,
        "kind": source.kind.value,
        "place": ", ".join(source.bootstrap) or source.root,
        "objects": len(entries),
        "new": sum(not entry.seen for entry in entries),
        "bytes": sum(entry.size for entry in entries),
        "newest": max((entry.copied_at for entry in entries), default=0),
        "copy_started": min(copied.started.values(), default=None),
        "copy_finished": max(copied.finished.values(), default=None),
    }


def _role(entry: ManifestEntry) -> str:
    """What the object is for; one that an earlier run took is only listed."""
    return f"{entry.role.value}, inherited" if entry.inherited else entry.role.value


def _gaps(tables: RunTables) -> Row:
    """Ranges of offsets that are missing, or were before the run: open ones first, then the widest."""
    rows = tables.rows(Step.ADMIT, GAPS.file)
    rows.sort(key=lambda row: (row["status"] != GapStatus.OPEN, row["first_offset"] - row["last_offset"]))
    shown = [{name: row[name] for name in SHOWN_OF_GAP} for row in rows[:MOST_GAPS]]
    return {"rows": [row | {"found_on": str(row["found_on"])} for row in shown], "count": len(rows)}


def _origins(tables: RunTables) -> Row:
    """Where the producers' state came from; partitions with remarks come first."""
    rows = tables.rows(Step.REBUILD, STATE_ORIGINS.file)
    rows.sort(key=lambda row: (row["message"] is None and not row["skipped"], row["topic"], row["partition"]))
    return {
        "counts": dict(Counter(row["origin"] for row in rows)),
        "rows": [
            {name: value for name, value in row.items() if name != "state"} for row in rows[:MOST_ORIGINS]
        ],
        "count": len(rows),
    }


def _expectation(row: Row) -> Row:
    names = ("suite", "expectation", "severity", "sentence", "success", "observed", "expected", "examples")
    return {name: row[name] for name in names}


def docs_files(tables: RunTables) -> Iterator[tuple[str, bytes]]:
    """The run's Data Docs, with their style in a file: the content security policy forbids inline styles."""
    prefix = tables.key(Step.AUDIT, DOCS) + "/"
    for found in tables.lake.list(prefix):
        page = tables.lake.read(found.key)
        style = _INLINE_STYLE.search(page)
        if style is not None:
            yield STYLE, style[1]
            page = _INLINE_STYLE.sub(f'<link rel="stylesheet" href="../../{STYLE}">'.encode(), page)
        yield f"{DOCS}/{tables.run_id}/{found.key.removeprefix(prefix)}", page


def write_run(site: SiteFiles, line: LedgerLine) -> None:
    """Writes the files of the run, from the tables in its folder."""
    tables = RunTables(site.lake, line.run_id)
    docs = dict(docs_files(tables))
    for path, page in docs.items():
        site.put(path, page)
    site.put_data(run_data(line, tables, has_docs=bool(docs)))
    if site.read_data(sources_file(line.run_id)) is None:  # pages load it for every run
        site.put_data([(sources_file(line.run_id), [])])


def sources_file(run_id: str) -> str:
    """Name of the data file with the sources of a run: `report` writes it, because it knows the settings."""
    return f"run/{run_id}/sources"


def run_data(line: LedgerLine, tables: RunTables, *, has_docs: bool) -> Iterator[NamedData]:
    """The run's data files, one after the other."""
    base = f"run/{line.run_id}"
    producers: Producers = {}
    partitions = partition_views(tables, producers)
    transactions = transaction_view(tables, set(producers))
    yield f"{base}/run", {**run_view(line, tables), "docs": has_docs}
    yield f"{base}/producers", producer_view(producers, transactions.owners)
    yield f"{base}/transactions", transactions.shown()
    yield f"{base}/newest", newest_records(tables)
    yield from partition_files(line.run_id, partitions)
    yield from topic_files(line.run_id, partitions, key_skews(tables))
    yield from explorer_files(tables, partitions)
