"""The other DAGs as they are; Airflow reads files that name airflow and a dag."""

import runpy
from pathlib import Path

DAGS = Path(__file__).parents[3] / "dags"

backfill = runpy.run_path(str(DAGS / "backfill.py"))["backfill"]
quality = runpy.run_path(str(DAGS / "quality.py"))["quality"]

__all__ = ["backfill", "quality"]
