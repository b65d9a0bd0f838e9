"""Kafka logs as Arrow: the Python API, the Spark data source, and what `inspect` shares with them."""
