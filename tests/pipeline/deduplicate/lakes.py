"""Lakes of a shop whose orders have ids, run in this process."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spark_jobs.config.load import parse_settings
from spark_jobs.config.settings import Settings
from spark_jobs.flow import Step
from spark_jobs.lake.chain import read_chain
from spark_jobs.lake.iceberg.catalog import open_catalog
from spark_jobs.lake.id_index import read_index_rows
from spark_jobs.lake.stores import open_lake
from spark_jobs.operations.backfill import run_backfill
from spark_jobs.pipeline.stage.backfill_request import BackfillRequest
from spark_jobs.run import RunOutcome
from tests.in_process import InProcess
from tests.operations.backfill.lakes import QUIET
from tests.operations.replay.runs import run
from tests.pipeline.batches import NOON, batch
from tests.pipeline.runs import day

DAY_MS = 86_400_000
CONFIG = """
lake: {lake}
sources:
  - {{name: gateway, kind: capture, root: capture, dates: dt=%Y-%m-%d, markers: true}}
topics: {topics}
limits: {{{limits}}}
audit:
  duplicate_share: {duplicate_share}
  severities: {{timestamps_are_in_range: "off", keys_are_in_their_partition: "off"}}
retention: {{runs_days: 2, snapshots_days: 2, staged_days: 2}}
"""
BY_ID = "{'orders*': {dedup: {id: [id]}}}"
WITHOUT = "{}"

Order = tuple[int, str]
"""Partition and id of an order."""


@dataclass(slots=True)
class Shop:
    """A directory with the shop's capture; each partition has a producer of its own for every day."""

    directory: Path
    lake: str = "lake"

    def settings(self, topics: str = BY_ID, limits: str = "", duplicate_share: float = 0.5) -> Settings:
        text = CONFIG.format(topics=topics, limits=limits, lake=self.lake, duplicate_share=duplicate_share)
        return parse_settings(text, name="onceover.yaml", base=self.directory)

    def sell(self, number: int, orders: Iterable[Order], *, topic: str = "orders", name: str = "a") -> None:
        """The orders of a day in this order; an id that is empty is missing."""
        found: dict[int, list[bytes]] = {}
        for partition, id_ in orders:
            found.setdefault(partition, []).append(f'{{"id": "{id_}"}}'.encode() if id_ else b"{}")
        for partition, values in found.items():
            self.send(number, values, topic=topic, partition=partition, name=name)

    def send(
        self,
        number: int,
        values: Sequence[bytes],
        *,
        topic: str = "orders",
        partition: int = 0,
        name: str = "a",
        pid: int | None = None,
    ) -> None:
        """Values as an object of the day."""
        producer = pid or 1000 * number + 10 * partition + ord(name)
        file = self.directory / "capture" / f"dt=2024-05-{number:02d}" / f"{topic}-{partition}" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        time = NOON + (number - 1) * DAY_MS
        parts = [batch(seq, pid=producer, timestamp=time, value=each) for seq, each in enumerate(values)]
        file.write_bytes(b"".join(parts))


def runs(settings: Settings, *numbers: int, until: Step = Step.PUBLISH) -> list[RunOutcome]:
    return [run(settings, number, until) for number in numbers]


def again(settings: Settings, first: int, last: int) -> list[str]:
    """A backfill; the runs that it made."""
    request = BackfillRequest(first=day(first), last=day(last))
    made = run_backfill(settings, request, spark=InProcess(), progress=QUIET, until=Step.PUBLISH)
    return [outcome.run_id for outcome in made]


def counts_of(outcome: RunOutcome) -> dict[str, int]:
    """What `deduplicate` counted."""
    return next((done.counts for done in outcome.done if done.step is Step.DEDUPLICATE), {})


def rows_of(settings: Settings, table: str, namespace: str = "topics") -> list[dict[str, Any]]:
    """All rows of a published table."""
    with open_catalog(settings) as catalog:
        found: list[dict[str, Any]] = catalog.load_table((namespace, table)).scan().to_arrow().to_pylist()
    return sorted(found, key=lambda row: (row["run_date"], row["partition"], row["offset"]))


def published(settings: Settings, table: str = "orders") -> list[tuple[int, int, int, bytes]]:
    """Day, partition, offset and value of every row."""
    found = rows_of(settings, table)
    return [(row["run_date"].day, row["partition"], row["offset"], row["value"]) for row in found]


def duplicates(settings: Settings) -> list[tuple[Any, ...]]:
    """Addresses of later records and of their first ones."""
    names = ("topic", "partition", "offset", "first_topic", "first_partition", "first_offset")
    return [
        (row["run_date"].day, *(row[name] for name in names), row["first_run_date"].day, row["kind"])
        for row in rows_of(settings, "duplicates", "onceover")
    ]


def states(settings: Settings) -> list[tuple[str, str]]:
    """Dates of the current runs with their states; a backfilled run may have another name."""
    chain = read_chain(open_lake(settings))
    return [(entry.day.isoformat(), entry.state_out) for entry in chain.current.values()]


def indexes(settings: Settings) -> list[list[dict[str, Any]]]:
    """The files of the index after each run."""
    lake = open_lake(settings)
    return [read_index_rows(lake, entry.run_id) for entry in read_chain(lake).current.values()]


def table_files(settings: Settings) -> set[tuple[str, str]]:
    """The files of topics' tables and of `duplicates`: date and path in the run, and digest."""
    found: set[tuple[str, str]] = set()
    with open_catalog(settings) as catalog:
        for name in (*catalog.list_tables("topics"), ("onceover", "duplicates")):
            for task in catalog.load_table(name).scan().plan_files():
                path = Path(task.file.file_path.removeprefix("file://"))
                run_id, *below = path.relative_to(Path(settings.lake, "runs")).parts
                digest = hashlib.sha256(path.read_bytes()).hexdigest()
                found.add(("/".join([run_id[:10], *below]), digest))
    return found
