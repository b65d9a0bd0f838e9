"""A lake with a captured topic of JSON values, and its runs run in this process."""

from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from rich.console import Console

from spark_jobs.config.load import parse_settings
from spark_jobs.config.settings import Settings
from spark_jobs.flow import Step
from spark_jobs.lake.iceberg.catalog import open_catalog
from spark_jobs.progress import RunProgress
from spark_jobs.run import RunOutcome, execute_run
from tests.in_process import InProcess
from tests.pipeline.runs import day

CONFIG = """
lake: lake
sources:
  - name: gateway
    kind: capture
    root: capture
    dates: dt=%Y-%m-%d
    markers: true
topics:
  orders: {{value: json, fields: {{amount: long, note: string}}, required: {required}}}
limits: {{{limits}}}
{more}"""


@dataclass(frozen=True, slots=True)
class Shop:
    """A directory with the shop's capture; settings may change from run to run."""

    directory: Path

    def settings(self, required: str = "[note]", limits: str = "", more: str = "") -> Settings:
        text = CONFIG.format(required=required, limits=limits, more=more)
        (self.directory / "onceover.yaml").write_text(text)
        return parse_settings(text, name="onceover.yaml", base=self.directory)

    def arrive(self, number: int, *batches: bytes, topic: str = "orders", name: str = "a") -> None:
        """An object of a run's date, with these batches."""
        file = self.directory / "capture" / f"dt=2024-05-{number:02d}" / f"{topic}-0" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"".join(batches))


def run(settings: Settings, number: int, until: Step = Step.PUBLISH) -> RunOutcome:
    return run_on(settings, day(number), until)


def run_on(settings: Settings, run_date: date, until: Step = Step.PUBLISH) -> RunOutcome:
    progress = RunProgress(Console(quiet=True))
    return execute_run(settings, run_date, until=until, spark=InProcess(), progress=progress)


def rows_of(settings: Settings, table: str, namespace: str = "topics") -> list[dict[str, Any]]:
    """The rows of a published table, by run date."""
    with open_catalog(settings) as catalog:
        found: list[dict[str, Any]] = catalog.load_table((namespace, table)).scan().to_arrow().to_pylist()
    return sorted(
        found, key=lambda row: (row["run_date"], row["offset"] if row["offset"] is not None else -1)
    )
