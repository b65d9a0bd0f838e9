"""Iceberg through pyiceberg: schemas, idempotent commits, expiry, relocation, and checks of the catalog."""
