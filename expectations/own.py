"""Onceover's own expectations: a class of Great Expectations' for each definition, in one of three shapes."""

from functools import cache
from types import new_class
from typing import Any

from great_expectations.expectations import (
    Expectation,
    ExpectColumnPairValuesAToBeGreaterThanB,
    ExpectColumnPairValuesToBeEqual,
    ExpectColumnValuesToBeBetween,
)

from expectations.remembering import Remembering
from spark_jobs.config.audit import ExpectationName


def at_most(name: ExpectationName, column: str, most: float = 0) -> Expectation:
    """No value of `column` exceeds `most`."""
    return _class_of(name, ExpectColumnValuesToBeBetween)(column=column, max_value=most)


def equal(name: ExpectationName, first: str, second: str) -> Expectation:
    """Both columns hold the same in every row."""
    return _class_of(name, ExpectColumnPairValuesToBeEqual)(column_A=first, column_B=second)


def at_least(name: ExpectationName, column: str, bound: str) -> Expectation:
    """`column` holds at least what `bound` does, in every row."""
    shape = ExpectColumnPairValuesAToBeGreaterThanB
    return _class_of(name, shape)(column_A=column, column_B=bound, or_equal=True)


@cache
def _class_of(name: ExpectationName, shape: type[Expectation]) -> type[Expectation]:
    """Great Expectations knows an expectation by its class, which registers itself under its name."""
    described = {
        "__module__": __name__,
        "__annotations__": {"description": str},
        "description": name.sentence,
    }
    title, bases = name.title().replace("_", ""), (Remembering, shape)
    made: Any = new_class(title, bases, exec_body=lambda namespace: namespace.update(described))
    found: type[Expectation] = made
    return found
