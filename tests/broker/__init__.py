"""Tests against a real Apache Kafka: the broker process, raw requests, and recordings made from both."""
