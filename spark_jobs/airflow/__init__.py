"""How steps become tasks of a DAG, and what Airflow's own pages show of a lake; the DAGs are in `dags/`."""
