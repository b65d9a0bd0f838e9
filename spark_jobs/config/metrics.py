"""Where the numbers of a run go besides the lake."""

import re
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, ValidationInfo

from spark_jobs.config.fields import Frozen, refuse

ADDRESS = re.compile(r"([A-Za-z0-9.-]+):(\d{1,5})")
LARGEST_PORT = 65_535


class Address(Frozen):
    """Where a collector listens."""

    host: str
    port: int


def check_address(value: Any) -> Any:
    """`host:port` → its parts."""
    if isinstance(value, Address):
        return value
    match = ADDRESS.fullmatch(value) if isinstance(value, str) else None
    if match is None or not 0 < int(match[2]) <= LARGEST_PORT:
        raise refuse("host:port, such as 127.0.0.1:8125")
    return Address(host=match[1], port=int(match[2]))


def check_file(value: str, info: ValidationInfo) -> str:
    """A path, made absolute from the context's `base`; collectors take files that end so."""
    if not value.endswith(".prom") or "://" in value or "\0" in value:
        raise refuse("a path on this machine that ends with .prom")
    return str(Path((info.context or {}).get("base", Path.cwd()), value).resolve())


class MetricsSettings(Frozen):
    """`textfile` is for Prometheus' node exporter, `statsd` for a StatsD server; neither unless named."""

    textfile: Annotated[str, AfterValidator(check_file)] | None = None
    statsd: Annotated[Address, BeforeValidator(check_address)] | None = None
