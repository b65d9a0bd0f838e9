"""The same inputs yield the same bytes as when they were recorded: no move of code changes what runs do."""

from pathlib import Path

import pytest

from tests.golden.digests import digests_of, read_golden
from tests.golden.scenarios import SCENARIOS

pytestmark = pytest.mark.usefixtures("great_expectations")


def test_every_scenario_is_recorded() -> None:
    assert set(read_golden()) == set(SCENARIOS)


@pytest.mark.parametrize("name", SCENARIOS)
def test_steps_and_tables_are_as_recorded(name: str, tmp_path: Path) -> None:
    assert digests_of(name, tmp_path) == read_golden()[name]
