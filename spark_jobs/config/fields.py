"""The types of settings, each with a description of the allowed values."""

import os
import re
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo
from pydantic_core import PydanticCustomError

UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}
SIZE = re.compile(r"(\d+)\s*([KMG]I?B|B)?", re.IGNORECASE)
SECONDS = {"m": 60, "h": 3600, "d": 86_400}
DURATION = re.compile(r"([1-9]\d{0,5})\s*([mhd])")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")
S3_URL = re.compile(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[^\s?#]*)?")
URL = re.compile(r"https?://[^/\s@]+/?")
ANOTHER_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
DATE_CODES = ("%Y", "%m", "%d")


class Frozen(BaseModel):
    """A group of settings: immutable, without undeclared keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)


def refuse(allowed: str) -> PydanticCustomError:
    """The error of a value that is not `allowed`; `config.load` adds the key and the found value."""
    return PydanticCustomError("not_allowed", "{allowed}", {"allowed": allowed})


def parse_size(value: Any) -> Any:
    """`64MiB` → 67108864; anything else is left for the integer check."""
    match = SIZE.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is not None:
        return int(match[1]) * UNITS[(match[2] or "").upper()]
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise refuse("a number of bytes, such as 1048576, 64MiB or 1GB")


def parse_duration(value: Any) -> Any:
    """`26h` → 93600 seconds."""
    match = DURATION.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is not None:
        return int(match[1]) * SECONDS[match[2]]
    raise refuse("a duration, such as 90m, 26h or 2d")


def check_name(value: str) -> str:
    if NAME.fullmatch(value) is None:
        raise refuse("1 to 63 letters, digits, '-' or '_', beginning with a letter or digit")
    return value


def check_location(value: str, info: ValidationInfo) -> str:
    """`s3://bucket/prefix` without a trailing slash, or a path, made absolute from the context's `base`."""
    if S3_URL.fullmatch(value) is not None and ".." not in value.split("/"):
        return value.rstrip("/")
    if not value or "\0" in value or ANOTHER_SCHEME.match(value):
        raise refuse("a path, or s3://bucket/prefix")
    base = (info.context or {}).get("base", Path.cwd())
    return os.path.normpath(Path(base, value))


def check_endpoint(value: str) -> str:
    if URL.fullmatch(value) is None:
        raise refuse("http:// or https:// with a host and nothing after it")
    return value.rstrip("/")


def check_date_layout(value: str) -> str:
    """Directory names below the root that spell a date, each of %Y, %m, %d exactly once."""
    pieces = re.findall(r"%.?", value)
    if sorted(pieces) != sorted(DATE_CODES) or any(part in {"", ".", ".."} for part in value.split("/")):
        raise refuse("directories below the root that spell the date, such as dt=%Y-%m-%d or %Y/%m/%d")
    return value


def check_not_empty(value: tuple[Any, ...]) -> tuple[Any, ...]:
    """Validated after the items: a list with invalid items is not reported as empty."""
    if not value:
        raise refuse("a list of at least one item")
    return value


def check_memory(value: str) -> str:
    if re.fullmatch(r"[1-9]\d*[mg]", value) is None:
        raise refuse("megabytes or gigabytes as Spark writes them, such as 512m or 2g")
    return value


Size = Annotated[int, BeforeValidator(parse_size)]
Duration = Annotated[int, BeforeValidator(parse_duration)]
Count = Annotated[int, Field(strict=True)]
Flag = Annotated[bool, Field(strict=True)]
Name = Annotated[str, AfterValidator(check_name)]
Location = Annotated[str, AfterValidator(check_location)]
Endpoint = Annotated[str, AfterValidator(check_endpoint)]
DateLayout = Annotated[str, AfterValidator(check_date_layout)]
NotEmpty = AfterValidator(check_not_empty)
Memory = Annotated[str, AfterValidator(check_memory)]
