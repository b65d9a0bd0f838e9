"""The published tables: an Iceberg catalog, and commits to it that can be repeated at will."""
