"""One suite per table, named like the table: its counts and the expectations on them."""
