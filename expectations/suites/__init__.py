"""One suite per table, of the table's name: which numbers are looked at, and what is expected of them."""
