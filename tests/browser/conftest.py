"""A real Chromium, the sites that it opens, and a server as strict as a careful one is."""

import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.browser.sample_lake import Shown, copied_lake, hostile_lake, sample_lake
from tests.browser.strict_server import StrictServer, strict_server
from tests.browser.visit import TIMEOUT_MS

NAMES = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One browser for all; skips where the machine has none."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.skip("no Chromium here; install the package chromium (Debian: apt install chromium)")
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(
            executable_path=found, args=["--no-sandbox"], timeout=TIMEOUT_MS
        )
        yield launched
        launched.close()


@pytest.fixture(scope="session")
def sample(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Shown:
    return sample_lake(tmp_path_factory.mktemp("sample"))


@pytest.fixture(scope="session")
def hostile(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Shown:
    return hostile_lake(tmp_path_factory.mktemp("hostile"))


@pytest.fixture(scope="session")
def copied(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Shown:
    return copied_lake(tmp_path_factory.mktemp("copied"))


@pytest.fixture(scope="session")
def served(sample: Shown) -> Iterator[StrictServer]:
    with strict_server(sample.directory) as server:
        yield server
