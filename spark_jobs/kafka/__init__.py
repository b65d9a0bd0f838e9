"""Kafka's formats and exactly-once rules as values and functions: no I/O, no clock, no numpy, no Spark."""
