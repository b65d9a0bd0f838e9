"""A real Chromium, shared by the tests of a module.

Playwright keeps an event loop running in its thread while it is open, so it is closed before other tests.
"""

import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.browser.visit import TIMEOUT_MS

NAMES = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="session")
def chromium() -> str:
    """Where the browser is; skips where the machine has none."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.skip("no Chromium here; install the package chromium (Debian: apt install chromium)")
    return found


@pytest.fixture(scope="module")
def browser(chromium: str) -> Iterator[Browser]:
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox"], timeout=TIMEOUT_MS
        )
        yield launched
        launched.close()
