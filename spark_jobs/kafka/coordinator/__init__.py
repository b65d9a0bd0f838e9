"""The logs of the transaction and group coordinators, folded into state, history and offsets."""
