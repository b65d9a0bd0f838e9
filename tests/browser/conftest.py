"""The sites that a real Chromium opens, and a server as strict as a careful one is."""

from collections.abc import Iterator

import pytest

from tests.browser.sample_lake import Shown, copied_lake, held_lake, hostile_lake, sample_lake
from tests.browser.strict_server import StrictServer, strict_server


@pytest.fixture(scope="session")
def sample(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Shown:
    return sample_lake(tmp_path_factory.mktemp("sample"))


@pytest.fixture(scope="session")
def hostile(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Shown:
    return hostile_lake(tmp_path_factory.mktemp("hostile"))


@pytest.fixture(scope="session")
def copied(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Shown:
    return copied_lake(tmp_path_factory.mktemp("copied"))


@pytest.fixture(scope="session")
def held(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Shown:
    return held_lake(tmp_path_factory.mktemp("held"))


@pytest.fixture(scope="session")
def served(sample: Shown) -> Iterator[StrictServer]:
    with strict_server(sample.directory) as server:
        yield server
