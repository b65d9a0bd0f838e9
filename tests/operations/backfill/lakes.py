"""Lakes with some runs behind them, run in this process, and what is in them afterwards."""

import hashlib
from collections.abc import Iterable
from datetime import date
from pathlib import Path
from typing import Any

from rich.console import Console

from spark_jobs.flow import Step
from spark_jobs.kafka.topic_partition import TopicPartition
from spark_jobs.lake.chain import Chain, read_chain
from spark_jobs.lake.iceberg.catalog import open_catalog
from spark_jobs.operations.backfill import BackfillPlan, plan_backfill, run_backfill
from spark_jobs.pipeline.stage.backfill_request import BackfillRequest
from spark_jobs.progress import RunProgress
from spark_jobs.run import RunOutcome, execute_run
from tests.in_process import InProcess
from tests.pipeline.admitted import AdmittedRun
from tests.pipeline.runs import Place, day

QUIET = RunProgress(Console(quiet=True))


def request(first: int, last: int | None = None, **choice: Any) -> BackfillRequest:
    """Days of May."""
    return BackfillRequest(first=day(first), last=day(last or first), **choice)


def run_day(place: Place, number: int, until: Step = Step.ADMIT) -> RunOutcome:
    """A run as it comes."""
    return execute_run(place.settings, day(number), until=until, spark=InProcess(), progress=QUIET)


def backfill(
    place: Place, first: int, last: int | None = None, *, until: Step = Step.ADMIT, **choice: Any
) -> list[date]:
    """A whole backfill; the days that ran."""
    asked = request(first, last, **choice)
    runs = run_backfill(place.settings, asked, spark=InProcess(), progress=QUIET, until=until)
    return [date.fromisoformat(outcome.run_id[:10]) for outcome in runs]


def plan(place: Place, first: int, last: int | None = None, **choice: Any) -> BackfillPlan:
    return plan_backfill(place.settings, request(first, last, **choice))


def whys(found: BackfillPlan) -> dict[int, list[str]]:
    """The reasons by day of May."""
    return {each.day.day: [reason.why.value for reason in each.reasons] for each in found.days}


def chain_of(place: Place) -> Chain:
    return read_chain(place.lake)


def current_run(place: Place, number: int) -> AdmittedRun:
    """The current run of the day."""
    entry = chain_of(place).run_of(day(number))
    assert entry is not None
    return AdmittedRun(place, entry.run_id)


def tree(directory: Path) -> dict[str, str]:
    """Every file below `directory` with its digest."""
    files = (path for path in sorted(directory.rglob("*")) if path.is_file())
    return {str(path.relative_to(directory)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def run_tree(place: Place, run_id: str) -> dict[str, str]:
    return tree(Path(place.settings.lake, "runs", run_id))


def log_directory(place: Place, target: Path) -> dict[TopicPartition, Path]:
    """The accepted log of every partition, written out as a broker's directory."""
    found = {}
    for entry in chain_of(place).current.values():
        of_run = AdmittedRun(place, entry.run_id)
        for partition in of_run.partitions():
            found[partition] = target / str(partition)
            found[partition].mkdir(parents=True, exist_ok=True)
            for name, data in of_run.log(partition).items():
                (found[partition] / name).write_bytes(data)
    return found


LEFT_OUT = {"run_id", "manifest", "state_in", "state_out", "object_order", "partition_leader_epoch"}


def tables(place: Place, left_out: Iterable[str] = LEFT_OUT) -> dict[str, list[str]]:
    """The rows of every published table as text, without run ids and epochs."""
    without = set(left_out)
    with open_catalog(place.settings) as catalog:
        names = [name for namespace in catalog.list_namespaces() for name in catalog.list_tables(namespace)]
        found = {".".join(name): catalog.load_table(name).scan().to_arrow() for name in names}
    return {
        name: sorted(
            str({key: value for key, value in row.items() if key not in without}) for row in rows.to_pylist()
        )
        for name, rows in found.items()
    }
