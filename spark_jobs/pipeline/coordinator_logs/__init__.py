"""`__transaction_state` and `__consumer_offsets` folded, for `rebuild` and `resolve`."""
