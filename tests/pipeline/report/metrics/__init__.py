"""What Prometheus and StatsD are told about runs."""
