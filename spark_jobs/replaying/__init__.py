"""Quarantined batches and records that somebody wants in the next run after all."""
