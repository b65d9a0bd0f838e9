"""Opens Airflow's UI in a real Chromium and says what it sees, as JSON: `look_at_ui CHROMIUM URL TOKEN`.

A process of its own: Playwright allows one user per thread, and other tests have it already.
"""

import json
import sys
from typing import Any

from playwright.sync_api import sync_playwright

TIMEOUT_MS = 240_000


def look(chromium: str, url: str, token: str) -> dict[str, Any]:
    """Goes to the entry in the navigation, as a user who has logged in, and opens a run."""
    complaints: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox"], timeout=TIMEOUT_MS
        )
        context = browser.new_context()
        context.set_default_timeout(TIMEOUT_MS)
        context.add_cookies([{"name": "_token", "value": token, "url": url}])
        page = context.new_page()
        page.on("console", lambda said: complaints.append(said.text) if _is_ours(said) else None)
        page.goto(url)
        page.get_by_role("link", name="Onceover").first.click()
        site = page.frame_locator("iframe[title='Onceover']")
        site.get_by_role("heading", level=1).first.wait_for()
        seen = {"address": page.url, "overview": site.get_by_role("heading", level=1).first.inner_text()}
        site.get_by_role("link", name="Run", exact=True).click()
        site.get_by_role("link", name="Run", exact=True).and_(site.locator("[aria-current=page]")).wait_for()
        seen["run"] = site.get_by_role("heading", level=1).first.inner_text()
        browser.close()
    return {**seen, "complaints": complaints}


def _is_ours(said: Any) -> bool:
    return said.type == "error" and "/onceover/" in said.location.get("url", "")


if __name__ == "__main__":
    print(json.dumps(look(*sys.argv[1:])))
