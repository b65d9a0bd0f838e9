"""Kafka's exactly-once rules as pure values and functions: no I/O, no clock, no numpy, no Spark."""
