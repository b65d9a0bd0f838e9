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

from spark_jobs.config.audit import ExpectationName


def at_most(name: ExpectationName, column: str, most: float | None = None) -> Expectation:
    """No value of `column` exceeds `most`, or 0 if the settings give no bound."""
    made = _class_of(name, ExpectColumnValuesToBeBetween, column=column, max_value=0.0)
    return made() if most is None else made(max_value=most)


def equal(name: ExpectationName, first: str, second: str) -> Expectation:
    """Both columns hold the same in every row."""
    return _class_of(name, ExpectColumnPairValuesToBeEqual, column_A=first, column_B=second)()


def at_least(name: ExpectationName, column: str, bound: str) -> Expectation:
    """`column` holds at least what `bound` does, in every row."""
    shape = ExpectColumnPairValuesAToBeGreaterThanB
    return _class_of(name, shape, column_A=column, column_B=bound, or_equal=True)()


@cache
def _class_of(name: ExpectationName, shape: type[Expectation], **fields: str | float) -> type[Expectation]:
    """Great Expectations knows an expectation by its class, which registers itself under its name.

    What is fixed is a default of the class: Data Docs show what is given as a parameter.
    """
    defaults = {**fields, "description": name.sentence}
    types = {field: type(value) for field, value in defaults.items()}
    body = {"__module__": __name__, "__annotations__": types, **defaults}
    title, bases = name.title().replace("_", ""), (shape,)
    made: Any = new_class(title, bases, exec_body=lambda namespace: namespace.update(body))
    found: type[Expectation] = made
    return found
