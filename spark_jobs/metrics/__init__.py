"""Numbers of the last run for Prometheus and StatsD."""
