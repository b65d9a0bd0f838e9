"""Every page opens as a file and from a strict server, loads nothing from other hosts, and is accessible."""

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser

from tests.browser.sample_lake import Shown
from tests.browser.strict_server import StrictServer
from tests.browser.visit import PAGES, Scheme, visit

SERIOUS = {"serious", "critical"}
CUT_OFF = """[...document.querySelectorAll(".scroll")]
  .filter(each => each.scrollWidth > each.clientWidth)
  .map(each => `${each.getAttribute("aria-label")}: ${each.scrollWidth} of ${each.clientWidth}`)"""
"""What scrolls sideways, and how much of it is visible."""
CONTROLS = ("chosen-run", "topic", "partition", "offset", "producer", "verdict", "find")


@pytest.mark.parametrize("name", PAGES)
def test_a_page_opened_as_a_file_works_and_loads_nothing_from_other_hosts(
    name: str, browser: Browser, sample: Shown
) -> None:
    with visit(browser, f"file://{sample.directory}/{name}") as seen:
        assert seen.complaints == []
        assert [url for url in seen.asked if not url.startswith(f"file://{sample.directory}/")] == []
        assert seen.page.locator("main table").count() >= 1


@pytest.mark.parametrize("name", PAGES)
def test_a_page_served_below_a_prefix_under_a_strict_policy_works_as_well(
    name: str, browser: Browser, served: StrictServer
) -> None:
    with visit(browser, f"{served.url}/{name}") as seen:
        assert seen.complaints == []
        assert [url for url in seen.asked if not url.startswith(served.url)] == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_a_page_has_no_serious_barrier_for_anyone(
    name: str, scheme: Scheme, browser: Browser, sample: Shown
) -> None:
    with visit(browser, f"file://{sample.directory}/{name}", scheme=scheme) as seen:
        found = Axe().run(seen.page).response["violations"]
    assert [
        (each["id"], [node["target"] for node in each["nodes"]][:5])
        for each in found
        if each["impact"] in SERIOUS
    ] == []


@pytest.mark.parametrize("name", PAGES)
def test_a_phone_shows_a_page_without_scrolling_sideways(name: str, browser: Browser, sample: Shown) -> None:
    with visit(browser, f"file://{sample.directory}/{name}", width=390) as seen:
        width = seen.page.evaluate("document.documentElement.scrollWidth")
    assert width <= 390


@pytest.mark.parametrize("width", [1280, 1400])
@pytest.mark.parametrize("name", PAGES)
def test_a_desktop_shows_the_whole_width_of_every_table(
    name: str, width: int, browser: Browser, sample: Shown, hostile: Shown
) -> None:
    for shown in (sample, hostile):
        with visit(browser, f"file://{shown.directory}/{name}", width=width) as seen:
            assert seen.page.evaluate(CUT_OFF) == []


def test_a_keyboard_reaches_content_pages_and_colours(browser: Browser, sample: Shown) -> None:
    with visit(browser, f"file://{sample.directory}/index.html") as seen:
        page = seen.page
        page.keyboard.press("Tab")
        seen.expect("document.activeElement.textContent == 'Skip to the content'")
        page.keyboard.press("Enter")
        seen.expect("document.activeElement.id == 'main'")
        page.evaluate("document.getElementById('theme').focus()")
        page.keyboard.press("Enter")
        page.keyboard.press("Enter")
        seen.expect("document.documentElement.dataset.theme == 'dark'")
        seen.expect("getComputedStyle(document.body).backgroundColor == 'rgb(16, 19, 26)'")
        seen.expect("getComputedStyle(document.activeElement).outlineStyle == 'solid'")


def test_every_control_is_reached_by_tab_alone(browser: Browser, sample: Shown) -> None:
    with visit(browser, f"file://{sample.directory}/batches.html") as seen:
        reached = []
        for _ in range(20):
            seen.page.keyboard.press("Tab")
            reached.append(
                seen.page.evaluate("document.activeElement.id || document.activeElement.textContent")
            )
    assert tuple(each for each in reached if each in CONTROLS) == CONTROLS


def test_the_chosen_colours_stay_on_the_next_page(browser: Browser, served: StrictServer) -> None:
    with visit(browser, f"{served.url}/index.html") as seen:
        seen.page.click("#theme")
        seen.page.click("#theme")
        seen.page.wait_for_selector("html[data-theme=dark]")
        seen.go(f"{served.url}/run.html")
        seen.page.wait_for_selector("html[data-theme=dark]")
