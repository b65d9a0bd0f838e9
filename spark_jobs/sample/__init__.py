"""Two days of a shop's Kafka traffic, written deterministically."""
