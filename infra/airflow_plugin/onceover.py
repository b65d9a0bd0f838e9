"""For Airflow's plugins folder: the lake's dashboard in Airflow's UI, where this package is installed."""

from dags.ui.plugin import OnceoverPlugin

__all__ = ["OnceoverPlugin"]
