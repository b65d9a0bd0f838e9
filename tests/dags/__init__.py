"""The DAGs as Airflow reads them."""
