"""Expectations that spell themselves out once, not each of the hundred times that the library asks."""

from typing import Any

from great_expectations.expectations import Expectation
from great_expectations.expectations.expectation_configuration import ExpectationConfiguration
from pydantic.v1 import PrivateAttr


class Remembering(Expectation):
    """Comes before a class of the library's; nobody changes a configuration that was handed out."""

    _spelled_out: ExpectationConfiguration | None = PrivateAttr(default=None)

    @property
    def configuration(self) -> ExpectationConfiguration:
        """The expectation as its parameters say it now."""
        if self._spelled_out is None:
            self._spelled_out = super().configuration
        return self._spelled_out

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self.__fields__:
            self._spelled_out = None
        super().__setattr__(name, value)
