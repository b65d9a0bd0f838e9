"""What Airflow's own pages show of a lake: its dashboard behind their login, and links to it; no DAG."""
