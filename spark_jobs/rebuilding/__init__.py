"""What a worker of `rebuild` does: find the state that a partition starts the run with."""
