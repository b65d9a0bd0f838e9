"""Reads Kafka logs, and decides as a broker does."""

__version__ = "0.1.0"
