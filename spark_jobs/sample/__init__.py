"""Sample data: two days of a shop's Kafka traffic, always the same bytes."""
