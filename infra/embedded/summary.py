"""What `make run` ends with: where everything is, what was refused and why, and a query to try."""

from pathlib import Path

import duckdb

from infra.embedded.follow import CONSOLE
from spark_jobs.config.load import load_settings
from spark_jobs.flow import Step
from spark_jobs.storage.ledger import list_runs
from spark_jobs.storage.stores import open_lake

REFUSED = """
SELECT regexp_extract(filename, 'runs/([^/]+)/', 1)[:10] AS night, verdict, count(*) AS batches,
       any_value(reason) AS example
FROM read_parquet(?, filename = true)
WHERE verdict NOT IN ('accepted', 'overlap')
GROUP BY ALL ORDER BY night, batches DESC, verdict
"""
QUERY = "SELECT topic, verdict, count(*) AS batches FROM '{batches}' GROUP BY ALL ORDER BY ALL"


def show_summary(config: Path) -> None:
    """For a lake on this machine's file system."""
    settings = load_settings(config)
    batches = f"{settings.lake}/runs/*/{Step.ADMIT}/batches/*.parquet"
    _say(f"\nThe lake: {settings.lake}")
    for line in list_runs(open_lake(settings)):
        _say(f"  {line.run_id}  {line.status}")
    _say("\nWhat was refused, and why:")
    for night, verdict, count, example in duckdb.execute(REFUSED, [batches]).fetchall():
        _say(f"  {night}  {count:>4}  {verdict:<26} {example or ''}")
    _say("\nOne query to try:")
    _say(f'  .venv/bin/python -c "import duckdb; duckdb.sql(\\"{QUERY.format(batches=batches)}\\").show()"')


def _say(text: str) -> None:
    CONSOLE.print(text, markup=False)
