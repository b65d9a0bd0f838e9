"""Kafka's bytes as values, and back."""
