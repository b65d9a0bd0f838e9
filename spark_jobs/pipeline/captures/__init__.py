"""Captured partitions under a broker's rules, for `rebuild` and `admit`."""
