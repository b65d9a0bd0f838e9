"""Replays of quarantined batches and records in the next run."""
