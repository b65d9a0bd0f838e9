"""Onceover on the logs of a real broker: runs in this process, and the tables that they publish."""

from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from rich.console import Console

from spark_jobs.commands.log import log
from spark_jobs.config.load import load_settings
from spark_jobs.config.settings import Settings
from spark_jobs.flow import Step
from spark_jobs.lake.iceberg.catalog import open_catalog
from spark_jobs.lake.layout import step_key
from spark_jobs.lake.parquet_file import read_table
from spark_jobs.lake.run_folder import MESSAGES
from spark_jobs.lake.stores import open_lake
from spark_jobs.progress import RunProgress
from spark_jobs.run import RunOutcome, execute_run
from tests.broker.judge import INTERNAL_PARTITIONS
from tests.e2e.tables import Records, by_pyiceberg, own_rows
from tests.in_process import InProcess

CONFIG = "onceover.yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lake:
    """A lake with its configuration; sources are beside it."""

    place: Path
    settings: Settings

    def run(self, day: date, *, until: Step = Step.PUBLISH) -> RunOutcome:
        """The run of `day`, in this process."""
        progress = RunProgress(Console(quiet=True))
        return execute_run(self.settings, day, until=until, spark=InProcess(), progress=progress)

    def records(self) -> Records:
        """All published records, in the form of a consumer's."""
        return by_pyiceberg(self.settings)

    def full_records(self) -> Records:
        """The same as rows of their tables, with the topic's name."""
        with open_catalog(self.settings) as catalog:
            tables = [catalog.load_table(name) for name in catalog.list_tables(self.settings.catalog.topics)]
            return [
                {"topic": table.properties["onceover.topic"], **row}
                for table in tables
                for row in table.scan().to_arrow().to_pylist()
            ]

    def rows(self, table: str) -> Records:
        """The rows of one of Onceover's own tables, over all runs."""
        return own_rows(self.settings, table)

    def step_rows(self, outcome: RunOutcome, step: Step, name: str) -> list[dict[str, Any]]:
        """The rows of a table in a run's folder."""
        rows: list[dict[str, Any]] = read_table(
            open_lake(self.settings), step_key(outcome.run_id, step, name)
        ).to_pylist()
        return rows

    def messages(self, outcome: RunOutcome, step: Step) -> str:
        """The remarks of a step of a run; empty without any."""
        lake, key = open_lake(self.settings), step_key(outcome.run_id, step, MESSAGES)
        return lake.read(key).decode() if lake.stat(key) is not None else ""

    def outputs(self, outcome: RunOutcome) -> dict[str, str]:
        """The digest of every file that a run wrote before it published."""
        return {
            f"{done.step}/{output.path}": output.digest
            for done in outcome.done
            if done.step is not Step.PUBLISH
            for output in done.outputs
        }

    def write_log(self, directory: Path) -> None:
        """`onceover log`: what was accepted from captures, as a broker's directory."""
        log(config=self.place / CONFIG, to=directory)


def log_lake(place: Path, logs: Path, *, publish: str = "read_committed", more: str = "") -> Lake:
    """For copies of a broker's log directory at `logs`; `more` are further lines of the configuration."""
    config = f"""
lake: lake
publish: {publish}
sources: [{{name: broker, kind: broker-log, root: '{logs}'}}]
kafka: {{transaction_state_partitions: {INTERNAL_PARTITIONS}}}
{more}"""
    return lake_at(place, config)


def capture_lake(place: Path, root: Path) -> Lake:
    """For a capture at `root` that brings its markers along."""
    config = f"""
lake: lake
sources: [{{name: gateway, kind: capture, root: '{root}', markers: true}}]
topics: {{lat: {{message_timestamp_type: LogAppendTime}}}}
"""
    return lake_at(place, config)


def alone_lake(place: Path, root: Path, logs: Path) -> Lake:
    """For a capture at `root` without markers, beside the coordinator's log among `logs`."""
    config = f"""
lake: lake
publish: read_committed
sources:
  - {{name: gateway, kind: capture, root: '{root}'}}
  - {{name: coordinator, kind: broker-log, root: '{logs}', topics: {{include: [none]}}}}
topics: {{lat: {{message_timestamp_type: LogAppendTime}}}}
kafka: {{transaction_version: TV2}}
"""
    return lake_at(place, config)


def tapped_lake(place: Path, root: Path) -> Lake:
    """For the captures of a tap at `root`, with the markers that it saw."""
    config = f"""
lake: lake
publish: read_committed
sources: [{{name: tap, kind: capture, root: '{root}', dates: 'dt=%Y-%m-%d', markers: true}}]
topics: {{lat: {{message_timestamp_type: LogAppendTime}}}}
"""
    return lake_at(place, config)


def lake_at(place: Path, config: str) -> Lake:
    """A lake with this configuration."""
    place.mkdir(parents=True, exist_ok=True)
    (place / CONFIG).write_text(config)
    return Lake(place=place, settings=load_settings(place / CONFIG))


def today() -> date:
    """The day whose run has all that a broker wrote just now."""
    return datetime.now(tz=UTC).date()
