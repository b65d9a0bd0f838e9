"""The declared schema of a topic's values."""

from enum import StrEnum

from spark_jobs.config.fields import refuse


class ValueFormat(StrEnum):
    """`bytes` are published as they are; of `json` the declared fields become columns of their own."""

    BYTES = "bytes"
    JSON = "json"


class ValueType(StrEnum):
    """Type of a field: what JSON can hold, in the size that a table has for it."""

    STRING = "string"
    LONG = "long"
    DOUBLE = "double"
    BOOLEAN = "boolean"


TAKEN = frozenset(
    {
        "partition", "offset", "timestamp", "timestamp_type", "timestamp_out_of_range", "key", "value",
        "headers", "producer_id", "producer_epoch", "sequence", "transactional_id",
        "partition_leader_epoch", "run_date",
    }
)  # fmt: skip
"""Columns that every topic's table has."""


def check_fields(fields: dict[str, ValueType]) -> dict[str, ValueType]:
    """Column names that do not collide with the table's own columns, even if case is folded."""
    for name in fields:
        if not name.isidentifier() or not name.isascii():
            raise refuse("fields named by letters, digits and '_', beginning with a letter or '_'")
        if name.lower() in TAKEN:
            raise refuse(f"fields not called like a column that every table has, such as '{name}'")
    if len({name.lower() for name in fields}) < len(fields):
        raise refuse("fields whose names differ by more than case")
    return fields
