"""Turns pydantic's errors into lines: where, which key, what was found, what is allowed."""

from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from reprlib import Repr
from typing import Any, get_args

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from spark_jobs.config.settings import Settings
from spark_jobs.config.yaml_file import ConfigFile, KeyPath, key_path

SHOWN = 80
"""Characters of a found value that a message repeats."""
BRIEF = Repr()
"""Never writes out more than is shown: aliases can make a few lines of YAML stand for gigabytes."""
BRIEF.maxlevel, BRIEF.maxlist, BRIEF.maxdict, BRIEF.maxtuple = 3, 6, 6, 6
BRIEF.maxstring = BRIEF.maxlong = BRIEF.maxother = SHOWN + 1

PLAIN_WORDS = {
    "tuple_type": "a list",
    "dict_type": "keys with values",
    "model_type": "keys with values",
    "string_type": "text",
    "int_type": "a whole number",
    "bool_type": "true or false",
}
"""What pydantic says in Python's terms, in YAML's."""
REMOVED = {
    "limits.worker_memory": "nothing ever read it; remove the key, and bound what a task holds by"
    " limits.range_bytes and by how many tasks run at once (such as spark.master local[2])",
    "spark.shuffle_partitions": "no step shuffles by Spark SQL; remove the key, or set"
    " spark.sql.shuffle.partitions below spark.conf",
}
"""Keys of earlier versions: what became of them, and what to do."""


def describe(errors: Sequence[ErrorDetails], file: ConfigFile) -> Iterator[str]:
    """One line per error, in the order of the file's keys as pydantic met them."""
    for error in errors:
        path = tuple(error["loc"])
        yield f"{file.where(path)}: {key_path(path)}: {_finding(error, path)}"


def _finding(error: ErrorDetails, path: KeyPath) -> str:
    if error["type"] == "extra_forbidden":
        return _unknown_key(path)
    if error["type"] == "missing":
        return "not found, but required"
    allowed = PLAIN_WORDS.get(error["type"], error["msg"].removeprefix("Input should be "))
    if isinstance(error["input"], dict | BaseModel):
        return f"allowed: {allowed}"
    return f"found {_shown(error['input'])}, allowed: {allowed}"


def _unknown_key(path: KeyPath) -> str:
    if key_path(path) in REMOVED:
        return f"removed in this version: {REMOVED[key_path(path)]}"
    allowed = _keys_at(path[:-1])
    close = get_close_matches(str(path[-1]), allowed, n=1)
    if close:
        return f"unknown key, did you mean '{close[0]}'?"
    return f"unknown key, allowed: {', '.join(allowed)}"


def _keys_at(path: KeyPath) -> list[str]:
    """The keys that the group at `path` has; follows the models from the top."""
    model: type[BaseModel] = Settings
    for part in path:
        if isinstance(part, str) and part in model.model_fields:
            model = _model_in(model.model_fields[part].annotation) or model
    return list(model.model_fields)


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """The settings group inside a field's type, also through tuples, dicts and unions."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for part in get_args(annotation) if (found := _model_in(part))), None)


def _shown(value: Any) -> str:
    text = BRIEF.repr(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
