"""Transactions of partitions matched with those of the coordinator, and one outcome for each."""
