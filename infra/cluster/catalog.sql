-- The database in which tables are registered, apart from Airflow's own database. Runs once, when Postgres starts for the first time.
CREATE DATABASE catalog;
