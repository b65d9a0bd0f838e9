"""Onceover: exactly-once tables from raw Kafka producer output."""
