"""Kafka's own topics, `__transaction_state` and `__consumer_offsets`, folded from run to run."""
