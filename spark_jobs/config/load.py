"""Loads the configuration: YAML with the line of every key, and all errors with line, key and allowed values.

Duplicate keys and secrets are refused.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from reprlib import Repr
from typing import Any, get_args

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from spark_jobs.config.settings import Settings
from spark_jobs.kafka.errors import OnceoverError
from spark_jobs.kafka.formats.tier_files import KEY_REFERENCE, KEY_REFERENCE_FORM

KeyPath = tuple[str | int, ...]

SECRET_KEY = re.compile(
    r"secret|passw(or)?d|passphrase|credential|token|authorization|(access|account|api|private)[._-]?key",
    re.IGNORECASE,
)
SECRET_VALUE = re.compile(
    r"\b(AKIA|ASIA)[0-9A-Z]{16}\b|://[^/\s@]*:[^/\s@]*@|[?&;](password|passwd|pwd|token|secret)=",
    re.IGNORECASE,
)
NO_SECRETS = (
    "secrets are not allowed in this file: remove the key and use the AWS credential chain "
    "(environment, profile, container or instance role), for a cluster the variables "
    "ONCEOVER_<SOURCE>_USERNAME and ONCEOVER_<SOURCE>_PASSWORD"
)
KEY_REFERENCES = f"keys are not allowed in this file, allowed: {KEY_REFERENCE_FORM}"


MOST_CHARACTERS = 1 << 20
"""Longer files are refused: parsing them would take minutes."""


class InvalidConfig(OnceoverError):
    """Everything that is wrong with a configuration, one line per error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigFile:
    """A parsed file: `data` as YAML means it, and the 1-based line of each key and list item."""

    name: str
    data: Any
    lines: dict[KeyPath, int]

    def where(self, path: KeyPath) -> str:
        """`name:line` of the nearest enclosing key in the file."""
        while path and path not in self.lines:
            path = path[:-1]
        return f"{self.name}:{self.lines.get(path, 1)}"


def parse(text: str, *, name: str) -> ConfigFile:
    """The document in `text`; messages use `name` for the file."""
    if len(text) > MOST_CHARACTERS:
        raise InvalidConfig(f"{name}: found {len(text):,} characters, allowed: up to {MOST_CHARACTERS:,}")
    loader = yaml.SafeLoader(text)
    try:
        node = loader.get_single_node()
        data = None if node is None else loader.construct_document(node)
        keys = tuple(_keys(node, (), set()))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise InvalidConfig(_syntax_problem(error, name)) from None
    finally:
        loader.dispose()
    problems = tuple(_problems(keys, name))
    if problems:
        raise InvalidConfig("\n".join(problems))
    return ConfigFile(name=name, data=data, lines={path: key.start_mark.line + 1 for path, key, _ in keys})


def key_path(path: KeyPath) -> str:
    """A path as people write it: `sources[0].topics.include`."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".") or "(whole file)"


def _keys(node: yaml.Node | None, path: KeyPath, seen: set[int]) -> Iterator[tuple[KeyPath, Any, Any]]:
    """Every key and list item as (path, node that bears the line, node of the value), in file order."""
    if node is None or id(node) in seen:
        return  # an alias of a node that has been visited
    seen.add(id(node))
    for part, key, value in _children(node):
        yield (*path, part), key, value
        yield from _keys(value, (*path, part), seen)


def _children(node: yaml.Node) -> Iterator[tuple[str | int, yaml.Node, yaml.Node]]:
    if isinstance(node, yaml.MappingNode):
        yield from ((str(key.value), key, value) for key, value in node.value)
    elif isinstance(node, yaml.SequenceNode):
        yield from ((number, item, item) for number, item in enumerate(node.value))


def _problems(keys: tuple[tuple[KeyPath, Any, Any], ...], name: str) -> Iterator[str]:
    first: dict[KeyPath, int] = {}
    for path, key, value in keys:
        line = key.start_mark.line + 1
        if path in first:
            yield f"{name}:{line}: {key_path(path)}: found twice, allowed once (first on line {first[path]})"
        first.setdefault(path, line)
        if _looks_secret(path, value):
            remedy = KEY_REFERENCES if _is_key_reference(path) else NO_SECRETS
            yield f"{name}:{line}: {key_path(path)}: found what looks like a secret; {remedy}"


def looks_secret(name: str, value: str) -> bool:
    """Whether a setting's name or value marks it as a secret."""
    return SECRET_KEY.search(name) is not None or SECRET_VALUE.search(value) is not None


def _looks_secret(path: KeyPath, value: yaml.Node) -> bool:
    is_topic = path[0] == "topics" and len(path) == 2
    text = value.value if isinstance(value, yaml.ScalarNode) else ""
    if _is_key_reference(path):
        return KEY_REFERENCE.fullmatch(text) is None
    return looks_secret("" if is_topic else str(path[-1]), text)


def _is_key_reference(path: KeyPath) -> bool:
    """Whether the value says where a key is; its name is the id that its owner gave it."""
    return path[-2:-1] == ("encryption_keys",)


def _syntax_problem(error: Exception, name: str) -> str:
    """The problem without YAML's excerpt of the line, which could hold a secret.

    Too long numbers, invalid dates and too deep nesting are found while values are constructed.
    """
    if isinstance(error, RecursionError):
        return f"{name}: not valid: lists or keys nested hundreds of levels deep"
    if isinstance(error, ValueError):
        return f"{name}: not valid: a number that is too long, or an invalid date ({error})"
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        return f"{name}:{error.problem_mark.line + 1}: not valid YAML: {error.problem}"
    return f"{name}: not valid YAML: {type(error).__name__}"


SHOWN = 80
"""Characters of a found value that a message repeats."""
BRIEF = Repr()
"""Bounds the work for a message: with aliases a few lines of YAML can expand to gigabytes."""
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
"""Pydantic's error types in terms of YAML."""
REMOVED = {
    "limits.worker_memory": "nothing ever read it; remove the key, and bound what a task holds by"
    " limits.range_bytes and by how many tasks run at once (such as spark.master local[2])",
    "spark.shuffle_partitions": "results do not depend on it; remove the key, or set"
    " spark.sql.shuffle.partitions below spark.conf",
}
"""Keys of earlier versions: why they were removed, and what to do."""


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


def load_settings(path: Path) -> Settings:
    """The settings in the YAML file at `path`; raises `InvalidConfig` with every error, one per line."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidConfig(f"{path}: cannot be read: {error}") from error
    return parse_settings(text, name=str(path), base=path.resolve().parent)


def parse_settings(text: str, *, name: str, base: Path) -> Settings:
    """The settings in `text`; relative paths start at `base`, messages call the file `name`."""
    file = parse(text, name=name)
    try:
        return Settings.model_validate({} if file.data is None else file.data, context={"base": base})
    except ValidationError as error:
        raise InvalidConfig("\n".join(describe(error.errors(), file))) from None
