"""Reads a YAML file into plain data, with the line of every key; refuses duplicate keys and secrets.

Secrets never come from a configuration file: credentials are found by the usual AWS chain (environment,
profile, container or instance role), so a file can be shown, logged and hashed.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from spark_jobs.protocol.errors import OnceoverError

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
    "(environment, profile, container or instance role)"
)


MOST_CHARACTERS = 1 << 20
"""No configuration is that long; reading one that is would take minutes."""


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
    """The document in `text`; `name` is how messages call the file."""
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
        return  # an alias: what it stands for has been visited
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
            yield f"{name}:{line}: {key_path(path)}: found what looks like a secret; {NO_SECRETS}"


def looks_secret(name: str, value: str) -> bool:
    """Whether a setting's name or value marks it as a secret."""
    return SECRET_KEY.search(name) is not None or SECRET_VALUE.search(value) is not None


def _looks_secret(path: KeyPath, value: yaml.Node) -> bool:
    is_topic = path[0] == "topics" and len(path) == 2
    text = value.value if isinstance(value, yaml.ScalarNode) else ""
    return looks_secret("" if is_topic else str(path[-1]), text)


def _syntax_problem(error: Exception, name: str) -> str:
    """Without YAML's own excerpt of the line, which could hold anything.

    Numbers that are too long, dates that are none and too deep nesting are found while values are made.
    """
    if isinstance(error, RecursionError):
        return f"{name}: not valid: lists or keys within one another, hundreds deep"
    if isinstance(error, ValueError):
        return f"{name}: not valid: a number that is too long, or a date that is none ({error})"
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        return f"{name}:{error.problem_mark.line + 1}: not valid YAML: {error.problem}"
    return f"{name}: not valid YAML: {type(error).__name__}"
