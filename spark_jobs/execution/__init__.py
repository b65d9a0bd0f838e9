"""Spark: one lazily started session, tasks in, summaries out."""
