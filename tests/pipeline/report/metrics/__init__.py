"""Metrics of runs for Prometheus and StatsD."""
