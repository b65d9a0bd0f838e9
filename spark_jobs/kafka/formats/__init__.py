"""Kafka's file and record formats: bytes read into values, and written from them."""
