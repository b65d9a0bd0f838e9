"""No setting is read by nothing: a key that changes nothing is a promise that is not kept."""

import ast
from pathlib import Path
from textwrap import dedent

import pytest

from spark_jobs.config.fields import Frozen
from spark_jobs.config.settings import Settings
from tests.config.settings_readers import models_in, unread

ROOT = Path(__file__).parents[2]
CODE = ("spark_jobs", "expectations", "dags", "infra")
FIXED = {"KafkaSettings.cached_batches"}
"""Has one allowed value; named so that it is visible."""


class Inner(Frozen):
    size: int = 1
    name: str = ""


class Outer(Frozen):
    inner: Inner = Inner()
    sizes: tuple[Inner, ...] = ()


def _unread(code: str) -> set[str]:
    return unread(Outer, [ast.parse(dedent(code))])


def test_every_setting_is_read_by_some_code() -> None:
    files = [path for name in CODE for path in (ROOT / name).rglob("*.py")]
    assert unread(Settings, [ast.parse(path.read_text()) for path in files]) == FIXED


def test_the_walk_reaches_every_group_of_settings() -> None:
    assert {"S3Settings", "Source", "TopicFilter", "Limits", "Severities", "Address"} <= set(
        models_in(Settings)
    )


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("", {"Outer.inner", "Outer.sizes", "Inner.size", "Inner.name"}),
        ("def f(s: Outer): return s.inner.size", {"Outer.sizes", "Inner.name"}),
        ("def f(s: Outer): return [each.name for each in s.sizes]", {"Outer.inner", "Inner.size"}),
        ("def f(other: str): return other.size", {"Outer.inner", "Outer.sizes", "Inner.size", "Inner.name"}),
        ("def f(s: Outer):\n  one = s.inner\n  return getattr(one, key())", {"Outer.sizes"}),
    ],
    ids=["nothing", "by path", "in a loop", "of another object", "by a computed name"],
)
def test_a_field_that_nothing_reads_is_found(code: str, expected: set[str]) -> None:
    assert _unread(code) == expected


def test_a_digest_or_a_check_of_values_is_no_reader() -> None:
    code = """
        class Outer:
            def _digest(self, name):
                return getattr(self.inner, name), self.inner.size

        def f(s: Outer):
            return s.inner, s.sizes
        """
    assert _unread(code) == {"Inner.size", "Inner.name"}


@pytest.mark.parametrize(
    ("use", "expected"),
    [("s.inner.twice", set()), ("s.inner", {"Inner.size"})],
    ids=["of a property that is read", "of a property that nothing reads"],
)
def test_a_field_is_read_through_a_property(use: str, expected: set[str]) -> None:
    code = f"""
        class Inner:
            @property
            def twice(self):
                return 2 * self.size

        def f(s: Outer):
            return {use}, s.inner.name, s.sizes
        """
    assert _unread(code) == expected
