"""The page on the configuration: every key with its type, its default and the example's comment."""

import inspect
import json
import re
from collections.abc import Callable, Iterable, Iterator
from datetime import date
from enum import StrEnum
from functools import cache
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from spark_jobs.config.audit import ExpectationName
from spark_jobs.config.fields import (
    check_date_layout,
    check_endpoint,
    check_location,
    check_memory,
    parse_duration,
    parse_size,
)
from spark_jobs.config.settings import Address, Settings, check_address, check_file

BLANK_LINE = "\n\n"


def cell(text: str) -> str:
    """One line, with what would end a cell or begin a tag spelled out."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def plain(value: object) -> str:
    """A value as YAML or a command line has it."""
    if isinstance(value, tuple | dict):
        return json.dumps(value)
    return str(value).lower() if isinstance(value, bool) else str(getattr(value, "value", value))


EXAMPLE = Path(__file__).parents[1] / "example" / "onceover.yaml"
MIB = 2**20
KEY = re.compile(
    r"(?P<indent>\s*)(?:# +)?(?:- )?[\"*]*(?P<key>[a-z_0-9]+)[\"*]*:(?:\s.*?)?(?:\s+# (?P<comment>.*))?$"
)
"""A line of the example that has a key, also where it is commented out."""
KIND_OF: dict[Callable[..., object] | None, str] = {
    parse_size: "bytes, such as `64MiB`",
    parse_duration: "duration, such as `26h`",
    check_location: "path or `s3://bucket/prefix`",
    check_endpoint: "URL",
    check_memory: "memory, such as `2g`",
    check_date_layout: "directories that spell a date, such as `dt=%Y-%m-%d`",
    check_address: "`host:port`",
    check_file: "path that ends with `.prom`",
}
YAML_NAME = {str: "text", int: "number", float: "number", bool: "`true` or `false`", date: "date"}


def configuration_page() -> str:
    """Every key of the YAML file with type, default and meaning, then the commented example."""
    sections = "\n".join(_section(Settings, "", "The whole file"))
    example = EXAMPLE.read_text()
    return (
        "# Configuration\n\nOne YAML file describes a lake. Unknown keys are refused, and so are secrets: "
        "credentials come from the AWS chain. Relative paths start at the directory of the file. "
        f"[The example](#example) has every key.\n\n{sections}\n\n## Example\n\n```yaml\n{example}```\n"
    )


def _section(model: type[BaseModel], prefix: str, title: str) -> Iterator[str]:
    yield f"## {title}\n\n{cell((inspect.getdoc(model) or '').partition(BLANK_LINE)[0])}\n"
    yield "| key | type | default | meaning |\n|---|---|---|---|"
    nested: list[tuple[str, type[BaseModel]]] = []
    for name, field in model.model_fields.items():
        meaning = cell(key_meaning(model, prefix, name))
        yield f"| `{prefix}{name}` | {_type_name(field)} | {_default(field)} | {meaning} |"
        nested += [(f"{prefix}{name}{_of_each(field)}", found) for found in _models(field.annotation)]
    yield ""
    for path, found in nested:
        yield from _section(found, f"{path}.", f"`{path}`")


def key_meaning(model: type[BaseModel], prefix: str, name: str) -> str:
    """An expectation's sentence, the example's comment, or the key's sentence in the docstring."""
    section = f"{prefix}{name}".partition(".")[0].partition("[")[0]
    sentences_of_expectations = {each.value: each.sentence for each in ExpectationName}
    if said := sentences_of_expectations.get(name) or _comments().get((section, name)):
        return said
    sentences = re.split(r"(?<=[.:;])\s+", " ".join((inspect.getdoc(model) or "").split()))
    return " ".join(each for each in sentences if f"`{name}`" in each)


@cache
def _comments() -> dict[tuple[str, str], str]:
    """By section and key the comment behind the key, or the lines of comment right above a section."""
    found: dict[tuple[str, str], str] = {}
    section, above = "", ""
    for line in EXAMPLE.read_text().splitlines():
        match = KEY.match(line)
        if match and not match["indent"]:
            section = match["key"]
        if match and (said := match["comment"] or ("" if match["indent"] else above)):
            found.setdefault((section, match["key"]), said)
        above = f"{above} {line[1:].strip()}" if line.startswith("#") else ""
    return found


def _of_each(field: FieldInfo) -> str:
    origin = get_origin(field.annotation)
    return "[]" if origin is tuple else ".<topic>" if origin is dict else ""


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel) and annotation is not Address:
        yield annotation
    for argument in get_args(annotation):
        yield from _models(argument)


def _type_name(field: FieldInfo) -> str:
    return _kind(field.metadata) or _spelled(field.annotation)


def _spelled(annotation: Any) -> str:
    """A type as a reader of YAML calls it."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is None:
        return _plain_type(annotation)
    if origin is Annotated:
        return _kind(annotation.__metadata__) or _spelled(arguments[0])
    if origin is Literal:
        return " or ".join(f"`{each}`" for each in arguments)
    inner = [_spelled(each) for each in arguments if each not in {NoneType, Ellipsis}]
    return {tuple: "list of ", dict: "map of "}.get(origin, "") + (" to " if origin is dict else " or ").join(
        inner
    )


def _plain_type(annotation: type) -> str:
    if issubclass(annotation, StrEnum):
        return " or ".join(f"`{each.value}`" for each in annotation)
    return "section" if issubclass(annotation, BaseModel) else YAML_NAME[annotation]


def _kind(metadata: Iterable[Any]) -> str:
    """The name of a type that a validator of this package defines."""
    named = (KIND_OF.get(getattr(each, "func", None), "") for each in metadata)
    return next(filter(None, named), "")


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if isinstance(value, BaseModel):
        return "see below"
    if value is None:
        return "none"
    return f"`{_size(value) if _type_name(field) == KIND_OF[parse_size] else plain(value)}`"


def _size(value: int) -> str:
    return f"{value // MIB}MiB" if value % MIB == 0 else str(value)
