"""One contract per table: columns, types, meaning, key."""
