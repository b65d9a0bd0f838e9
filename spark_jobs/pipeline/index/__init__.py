"""`index`: one row per batch of the staged objects."""
