"""Transactions of partitions and of the coordinator, joined to one outcome each."""
