"""A real Chromium: Playwright can run only once in a process, so all tests of one share it."""

import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright

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
