"""What `make run` ends with: where everything is, what was refused and why, and a query to try."""

from pathlib import Path

import duckdb

from infra.embedded.follow import CONSOLE
from spark_jobs.config.load import load_settings
from spark_jobs.config.settings import Settings
from spark_jobs.flow import Step
from spark_jobs.lake.iceberg.catalog import catalog_properties, open_catalog
from spark_jobs.lake.iceberg.holdings import table_names
from spark_jobs.lake.ledger import list_runs
from spark_jobs.lake.stores import open_lake
from spark_jobs.pipeline.report.site_files import DASHBOARD, FIRST_PAGE

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
