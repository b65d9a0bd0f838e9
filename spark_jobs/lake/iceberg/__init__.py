"""Iceberg through pyiceberg: schemas, commits that can be repeated, what tables hold."""
