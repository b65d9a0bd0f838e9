"""The driver and the way to it."""
