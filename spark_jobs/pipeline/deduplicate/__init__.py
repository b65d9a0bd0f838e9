"""The step `deduplicate`."""
