"""`publish`: one Iceberg commit per table."""
