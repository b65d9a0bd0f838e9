"""The isolation levels of a consumer."""

from enum import StrEnum


class Isolation(StrEnum):
    """Under the names of a consumer's `isolation.level`."""

    READ_UNCOMMITTED = "read_uncommitted"
    READ_COMMITTED = "read_committed"
