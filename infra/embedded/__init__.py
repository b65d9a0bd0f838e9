"""Airflow on this machine alone: SQLite, three processes on loopback. `python -m infra.embedded run`."""
