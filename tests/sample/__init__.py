"""A small log directory, written by our own writers: what `make run` shows. Always the same bytes."""
