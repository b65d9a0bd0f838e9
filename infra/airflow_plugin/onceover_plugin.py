"""For Airflow's plugins folder: the lake's dashboard in Airflow's UI, where this package is installed.

Airflow imports this file under its own name, so it must not be called like the module `onceover`.
"""

from spark_jobs.airflow.plugin import OnceoverPlugin

__all__ = ["OnceoverPlugin"]
