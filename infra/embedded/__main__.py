"""`run`: the sample's runs through the nightly DAG. `up`: starts Airflow with its UI. `down`: stops it."""

import argparse
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import date
from pathlib import Path

import duckdb

from infra.embedded.follow import CONSOLE, follow
from infra.embedded.home import ROOT, USER, EmbeddedFailed, Home, check_port, free_port
from infra.embedded.rest import Api
from infra.embedded.services import port_in_use, prepare, running, start, stop
from spark_jobs.config.load import load_settings
from spark_jobs.config.settings import Settings
from spark_jobs.driver.client import stop_driver
from spark_jobs.driver.protocol import StepRequest
from spark_jobs.flow import Step
from spark_jobs.lake.iceberg.catalog import catalog_properties, open_catalog
from spark_jobs.lake.iceberg.holdings import table_names
from spark_jobs.lake.ledger import list_runs
from spark_jobs.lake.stores import open_lake
from spark_jobs.pipeline.report.site_files import DASHBOARD, FIRST_PAGE
from spark_jobs.sample.files import CONFIG, write_sample
from spark_jobs.sample.story import RUN_DATES

NIGHTLY, BACKFILL, QUALITY = DAGS = ("onceover_nightly", "onceover_backfill", "onceover_quality")
CACHE = ROOT / ".cache"


@contextmanager
def phase(what: str) -> Iterator[None]:
    """One line per phase, with its seconds; on a terminal something moves meanwhile."""
    began = time.monotonic()
    with CONSOLE.status(f"{what} …"):
        yield
    CONSOLE.print(f"{what:<50} {time.monotonic() - began:6.1f} s")


@contextmanager
def airflow(home: Home) -> Iterator[Api]:
    """A running Airflow that ends with the block."""
    with phase("preparing Airflow"):
        prepare(home)
    try:
        with phase("starting Airflow"):
            start(home)
            api = ready(home)
        yield api
    finally:
        with phase("stopping Airflow"):
            stop(home)


def check_down(home: Home) -> None:
    """A running Airflow may serve another lake, so it is not stopped here."""
    if running(home):
        url = replace(home, port=port_in_use(home)).url
        raise EmbeddedFailed(f"Airflow is up already: {url}; `make down` stops it")


def ready(home: Home) -> Api:
    """The interface, once everything answers."""
    api = Api(home)
    api.wait_until_ready(*DAGS)
    api.make_pool()
    return api


def run(home: Home) -> None:
    """Both runs of the sample, from nothing to published tables."""
    check_down(home)
    sample = home.config.parent
    with phase("writing the sample"):
        shutil.rmtree(sample, ignore_errors=True)
        write_sample(sample)
    with airflow(home) as api:
        for run_date in RUN_DATES:
            execute_run(api, run_date)
        stop_driver(
            StepRequest(config=str(home.config), day=RUN_DATES[0], step=Step.STAGE, more_steps_follow=True)
        )
    show_summary(home.config)


def execute_run(api: Api, run_date: date) -> str:
    """One run through the DAG; the id of its DAG run."""
    CONSOLE.print(f"the run of {run_date}")
    began = time.monotonic()
    run_id = api.trigger(NIGHTLY, {"date": str(run_date)})
    follow(api, NIGHTLY, run_id)
    CONSOLE.print(f"  {time.monotonic() - began:.0f} s from trigger to end")
    return run_id


def up(home: Home) -> None:
    """Airflow with its UI, until `down`."""
    check_down(home)
    check_port(home.port)
    if not home.config.exists():
        write_sample(home.config.parent)
    is_new = not home.passwords.exists()
    with phase("preparing Airflow"):
        prepare(home)
    try:
        with phase("starting Airflow"):
            start(home)
            ready(home)
    except BaseException:
        stop(home)
        raise
    CONSOLE.print(f"Airflow is up: {home.url}")
    CONSOLE.print(f"the dashboard is its entry Onceover: {home.url}/plugin/onceover")
    password = home.password if is_new else f"in {home.passwords}"
    CONSOLE.print(f"user {USER}, password {password}", markup=False)


def down(home: Home) -> None:
    """Ends it, if it runs."""
    if not running(home):
        CONSOLE.print("Airflow is not running")
        return
    with phase("stopping Airflow"):
        stop(home)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m infra.embedded", description=__doc__)
    parser.add_argument("command", choices=("run", "up", "down"))
    parser.add_argument("--home", type=Path, default=CACHE / "airflow", help="Airflow's directory")
    parser.add_argument("--config", type=Path, default=CACHE / "sample" / CONFIG, help="an onceover.yaml")
    parser.add_argument("--port", type=int, default=8080, help="where the UI listens, on loopback")
    chosen = parser.parse_args()
    port = free_port() if chosen.command == "run" else chosen.port
    home = Home(chosen.home.resolve(), port, chosen.config.resolve())
    try:
        {"run": run, "up": up, "down": down}[chosen.command](home)
    except EmbeddedFailed as error:
        sys.exit(f"stopped: {error}")


REFUSED = """
SELECT regexp_extract(filename, 'runs/([^/]+)/', 1)[:10] AS run, verdict, count(*) AS batches,
       any_value(reason) AS example
FROM read_parquet(?, filename = true)
WHERE verdict NOT IN ('accepted', 'overlap')
GROUP BY ALL ORDER BY run, batches DESC, verdict
"""
QUERY = """\
.venv/bin/python - <<'END'
from pyiceberg.catalog import load_catalog
catalog = load_catalog("onceover", type="sql", uri="{uri}")
orders = catalog.load_table("{topics}.orders").scan().to_duckdb("orders")
orders.sql("SELECT partition, count(*), max(timestamp) FROM orders GROUP BY ALL ORDER BY ALL").show()
END
"""


def show_summary(config: Path) -> None:
    """For a lake on the local file system that holds the sample's runs."""
    settings = load_settings(config)
    _say(f"\nThe lake: {settings.lake}")
    for line in list_runs(open_lake(settings)):
        _say(f"  {line.run_id}  {line.status}  what was checked: {_docs(settings, line.run_id)}")
    _say(f"\nThe dashboard, for any browser: {Path(settings.lake, DASHBOARD, FIRST_PAGE)}")
    _show_tables(settings)
    _say("\nWhat was refused, and why:")
    batches = f"{settings.lake}/runs/*/{Step.ADMIT}/batches/*.parquet"
    for run, verdict, count, example in duckdb.execute(REFUSED, [batches]).fetchall():
        _say(f"  {run}  {count:>4}  {verdict:<26} {example or ''}")
    _say("\nOne query to try:")
    _say(QUERY.format(uri=catalog_properties(settings)["uri"], topics=settings.catalog.topics))


def _docs(settings: Settings, run_id: str) -> Path:
    return Path(settings.lake, "runs", run_id, Step.AUDIT, "docs", "index.html")


def _show_tables(settings: Settings) -> None:
    """Every table with its row count, from Iceberg's metadata."""
    _say("\nThe tables (Iceberg, any engine reads them):")
    with open_catalog(settings) as catalog:
        for name in table_names(catalog, settings):
            table = catalog.load_table(name)
            rows = sum(task.file.record_count for task in table.scan().plan_files())
            _say(f"  {name:<32} {rows:>8,} rows  {table.location()}")


def _say(text: str) -> None:
    CONSOLE.print(text, markup=False)


if __name__ == "__main__":
    main()
