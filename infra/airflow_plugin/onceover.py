"""For Airflow's plugins folder: the lake's dashboard in Airflow's UI, where this package is installed."""

from spark_jobs.airflow.plugin import OnceoverPlugin

__all__ = ["OnceoverPlugin"]
