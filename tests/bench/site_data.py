"""A year of runs as their runs leave them: one run's tables in full, of others what the site shows."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from spark_jobs.config.audit import ExpectationName
from spark_jobs.flow import STEPS, Step
from spark_jobs.lake.chain import make_final, read_chain
from spark_jobs.lake.file_store import FileStore
from spark_jobs.lake.layout import step_key
from spark_jobs.lake.ledger import Ledger, list_runs
from spark_jobs.lake.manifest import Manifest
from spark_jobs.lake.parquet_file import put_table
from spark_jobs.lake.run_folder import MANIFEST, RunInputs
from spark_jobs.pipeline.report.run_page import run_data
from spark_jobs.pipeline.report.run_tables import RunTables
from spark_jobs.pipeline.report.site_files import NamedData, SiteFiles
from spark_jobs.pipeline.report.step import SiteState, fingerprint, write_state, write_years
from spark_jobs.tables.admit import ADMITTED_PARTITIONS, BATCHES
from spark_jobs.tables.audit import EXPECTATION_RESULTS, PARTITION_FACTS, TOPIC_VOLUMES
from spark_jobs.tables.contract import Contract
from spark_jobs.tables.rebuild import STATE_ORIGINS
from spark_jobs.tables.resolve import RESOLVED_PARTITIONS
from spark_jobs.tables.states import INHERITED_OBJECTS

FIRST = date(2025, 11, 16)
PARTITIONS_PER_TOPIC = 2
BATCHES_PER_PARTITION = 40
ROUND = ("accepted",) * 17 + ("duplicate", "out_of_order", "accepted")


@dataclass(frozen=True, slots=True, kw_only=True)
class Year:
    """How many runs and topics."""

    runs: int
    topics: int

    @property
    def partitions(self) -> list[tuple[str, int]]:
        names = [f"shop.events.topic-{number:04d}" for number in range(self.topics)]
        return [(name, partition) for name in names for partition in range(PARTITIONS_PER_TOPIC)]


def write_year(place: Path, year: Year) -> FileStore:
    """All runs but the last as the site would have them already; the last one is final, but not shown."""
    lake = FileStore(str(place))
    run_ids = [_run(lake, year, number) for number in range(year.runs)]
    write_tables(lake, run_ids[0], year)
    _show(lake, run_ids[:-1])
    write_tables(lake, run_ids[-1], year)
    return lake


def one_more_run(lake: FileStore, year: Year) -> None:
    """The next run, with its tables."""
    write_tables(lake, _run(lake, year, year.runs), year)


def _run(lake: FileStore, year: Year, number: int) -> str:
    """A final run by ledger and chain, and its volumes."""
    chain, day = read_chain(lake), FIRST + timedelta(days=number)
    inputs = RunInputs(day=day, manifest=f"{number:064}", config="c", state_in=chain.state_before(day))
    ledger = Ledger(lake)
    ledger.started(inputs)
    for step in STEPS[1:-1]:
        ledger.step_started(inputs.run_id, step)
        ledger.step_finished(inputs.run_id, step, _counts(year, step, number))
    ledger.done(inputs.run_id)
    make_final(lake, chain, inputs, state_out=f"s{number}", last_step=Step.PUBLISH, outputs=inputs.run_id)
    rows = _volumes(year, number)
    _put(lake, inputs.run_id, Step.AUDIT, "topic_volumes", contract=TOPIC_VOLUMES, rows=rows)
    return inputs.run_id


def _counts(year: Year, step: Step, number: int) -> dict[str, int]:
    batches = year.topics * PARTITIONS_PER_TOPIC * BATCHES_PER_PARTITION
    known = {
        Step.ADMIT: {"batches": batches, "accepted": batches - 900 - number, "duplicate": 900 + number},
        Step.RESOLVE: {
            "transactions": 5000 + number,
            "committed": 4900,
            "aborted": 100,
            "ongoing": number % 3,
        },
        Step.MATERIALISE: {"records": batches * (9 + number % 5)},
    }
    return known.get(step, {"tables": year.topics})


def _volumes(year: Year, number: int) -> list[dict[str, Any]]:
    names = sorted({topic for topic, _ in year.partitions})
    return [
        {"topic": topic, "batches": 80, "duplicate": place % 7, "out_of_order": place % 3, "corrupt": 0,
         "records": 700 + (place * number) % 97}
        for place, topic in enumerate(names)
    ]  # fmt: skip


def write_tables(lake: FileStore, run_id: str, year: Year) -> None:
    """Everything in the run's folder that the site reads."""
    day = date.fromisoformat(run_id[:10])
    lake.put(step_key(run_id, Step.STAGE, MANIFEST), Manifest(day=day, entries=()).to_bytes())
    _put(lake, run_id, Step.REBUILD, "inherited_objects", contract=INHERITED_OBJECTS, rows=[_object()])
    for step, name, contract in (
        (Step.REBUILD, "origins", STATE_ORIGINS),
        (Step.ADMIT, "partitions", ADMITTED_PARTITIONS),
        (Step.RESOLVE, "partitions", RESOLVED_PARTITIONS),
        (Step.AUDIT, "partition_facts", PARTITION_FACTS),
    ):
        rows = [{"topic": topic, "partition": partition} for topic, partition in year.partitions]
        _put(lake, run_id, step, name, contract=contract, rows=rows)
    results = [
        {"expectation": name.value, "severity": "warning", "success": True} for name in ExpectationName
    ]
    _put(lake, run_id, Step.AUDIT, "expectation_results", contract=EXPECTATION_RESULTS, rows=results)
    for topic, partition in year.partitions:
        rows = [_batch(topic, partition, number) for number in range(BATCHES_PER_PARTITION)]
        _put(lake, run_id, Step.ADMIT, f"batches/{topic}-{partition}", contract=BATCHES, rows=rows)


def _batch(topic: str, partition: int, number: int) -> dict[str, Any]:
    verdict = ROUND[number % len(ROUND)]
    return {
        "topic": topic, "partition": partition, "offset": number * 10, "last_offset_delta": 9, "magic": 2,
        "producer_id": 4000 + number % 3, "base_sequence": number * 10, "record_count": 10,
        "verdict": verdict, "kafka_error": "NONE",
        "reason": None if verdict == "accepted" else "expected sequence 7, found 12",
    }  # fmt: skip


def _object() -> dict[str, Any]:
    return {"object_order": 0, "source": "gateway", "path": "orders-0/0000.batches"}


def _put(
    lake: FileStore, run_id: str, step: Step, name: str, *, contract: Contract, rows: list[dict[str, Any]]
) -> None:
    """Rows with zeros and empty texts for whatever they do not say."""
    schema = contract.schema
    plain = {column.name: _nothing(column.type) for column in contract.columns if not column.nullable}
    by_place = {"rows": BATCHES_PER_PARTITION} if name == "partitions" and step is Step.ADMIT else {}
    full = [{**plain, **by_place, **_file(row, step, name), **row} for row in rows]
    put_table(lake, step_key(run_id, step), f"{name}.parquet", pa.Table.from_pylist(full, schema=schema))


def _file(row: dict[str, Any], step: Step, name: str) -> dict[str, Any]:
    if name == "origins":
        return {"origin": "chain"}
    if name == "partitions" and step is Step.ADMIT:
        return {"batches": f"batches/{row['topic']}-{row['partition']}.parquet"}
    return {}


def _nothing(kind: pa.DataType) -> Any:
    if pa.types.is_list(kind):
        return []
    if pa.types.is_boolean(kind):
        return False
    return "" if pa.types.is_string(kind) else np.int64(0).item()


def _show(lake: FileStore, run_ids: list[str]) -> None:
    """The first run's files under the name of every other, and a memory that knows them."""
    site, lines = SiteFiles(lake), {line.run_id: line for line in list_runs(lake)}
    template = list(run_data(lines[run_ids[0]], RunTables(lake, run_ids[0]), has_docs=False))
    for run_id in run_ids:
        site.put_data(_renamed(template, run_ids[0], run_id))
    shown = [lines[run_id] for run_id in run_ids]
    write_years(site, shown, shown)
    write_state(site, SiteState(runs={run_id: fingerprint(lines[run_id]) for run_id in run_ids}))


def _renamed(files: list[NamedData], old: str, new: str) -> Iterator[NamedData]:
    """Batches are many and only looked at for one run: they stay away."""
    return ((name.replace(old, new), value) for name, value in files if "/batches/" not in name)
