"""Two nights of a shop's Kafka traffic, written by our own writers: the same bytes every time."""
