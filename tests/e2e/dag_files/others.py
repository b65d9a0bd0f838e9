"""The other DAGs as they stand; Airflow reads files that name airflow and a dag."""

from dags.backfill import backfill
from dags.quality import quality

__all__ = ["backfill", "quality"]
