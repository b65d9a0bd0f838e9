"""A real Apache Kafka as judge: the broker process, raw requests, and recordings made from both."""
