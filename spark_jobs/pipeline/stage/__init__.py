"""`stage`: the run's inputs, fixed in a manifest."""
