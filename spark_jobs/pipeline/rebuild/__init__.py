"""`rebuild`: the producer state that every partition starts the run with."""
