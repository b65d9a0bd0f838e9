"""A look at a page: what it shows, what it complained about, and whom it asked."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from playwright.sync_api import Browser, ConsoleMessage, Page

READY = "body[data-ready=true]"
TIMEOUT_MS = 180_000
PAGES = ("index.html", "run.html", "topic.html", "producers.html", "transactions.html", "batches.html")
Scheme = Literal["light", "dark"]


@dataclass
class Visit:
    """An open page; `complaints` are errors of any kind, `asked` every address that it turned to."""

    page: Page
    complaints: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def listen(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            self.complaints.append(message.text)

    def text(self, selector: str) -> str:
        return self.page.locator(selector).first.inner_text()

    def table(self, caption: str) -> list[dict[str, str]]:
        """The rows of the table whose caption begins like this, by the titles of its columns.

        Waits for it: a figure draws its table after it was opened, not while it is.
        """
        found: list[dict[str, str]] = self.page.wait_for_function(READ_TABLE, arg=caption).json_value()
        return found

    def expect(self, condition: str) -> None:
        """Waits until this holds in the page: what a key or a click brings about may take a moment."""
        self.page.wait_for_function(condition)

    def go(self, url: str) -> None:
        """Open another address, and wait until the page is drawn."""
        self.page.goto("about:blank")
        self.page.goto(url)
        self.page.wait_for_selector(READY)


READ_TABLE = """caption => {
  const table = [...document.querySelectorAll("table")].find(
    each => each.caption && each.caption.textContent.startsWith(caption));
  if (!table) return null;
  const titles = [...table.tHead.rows[0].cells].map(cell => cell.textContent);
  return [...table.tBodies[0].rows].map(
    row => Object.fromEntries([...row.cells].map((cell, i) => [titles[i], cell.innerText.trim()])));
}"""


@contextmanager
def visit(
    browser: Browser,
    url: str,
    *,
    width: int = 1280,
    scheme: Scheme = "light",
    now: datetime | None = None,
) -> Iterator[Visit]:
    """Open `url`, and leave it at the end; with `now` the page's clock shows that time."""
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    context.set_default_timeout(TIMEOUT_MS)
    if now is not None:
        context.clock.set_fixed_time(now)
    try:
        seen = Visit(context.new_page())
        page = seen.page
        page.on("console", seen.listen)
        page.on("pageerror", lambda error: seen.complaints.append(str(error)))
        page.on("dialog", lambda dialog: seen.complaints.append(f"a dialog: {dialog.message}"))
        page.on("request", lambda request: seen.asked.append(request.url))
        page.goto(url)
        page.wait_for_selector(READY)
        yield seen
    finally:
        context.close()
