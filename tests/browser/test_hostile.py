"""Names, keys, ids and errors stay text, whatever they hold."""

import pytest
from playwright.sync_api import Browser

from spark_jobs.pipeline.report.site_files import topic_code
from tests.browser.sample_lake import HOSTILE_ID, HOSTILE_KEY, HOSTILE_TOPIC, Shown
from tests.browser.visit import PAGES, visit

SEEN_TOPIC = HOSTILE_TOPIC.replace("\u202e", "\\u{202e}")
SEEN_KEY = HOSTILE_KEY.replace("\u2028", "\\u{2028}")


@pytest.mark.parametrize("name", [*PAGES, f"topic.html#topic={topic_code(HOSTILE_TOPIC)}"])
def test_nothing_of_it_runs_or_becomes_an_element(name: str, browser: Browser, hostile: Shown) -> None:
    with visit(browser, f"file://{hostile.directory}/{name}") as seen:
        assert seen.page.evaluate("typeof window.hacked") == "undefined"
        assert (
            seen.page.locator("main script, main svg, main img, main b, main a[href^=javascript]").count()
            == 0
        )
        assert seen.complaints == []


def test_a_topic_and_its_keys_are_shown_as_they_are(browser: Browser, hostile: Shown) -> None:
    with visit(browser, f"file://{hostile.directory}/topic.html") as seen:
        names = [row["Topic"] for row in seen.table("Topics of")]
        assert SEEN_TOPIC in names
        seen.go(f"file://{hostile.directory}/topic.html#topic={topic_code(HOSTILE_TOPIC)}")
        assert seen.text("h1") == SEEN_TOPIC
        assert seen.table("The most frequent keys")[0]["Key"] == SEEN_KEY


def test_a_transactional_id_is_shown_as_it_is(browser: Browser, hostile: Shown) -> None:
    with visit(browser, f"file://{hostile.directory}/transactions.html") as seen:
        shown = seen.table("Open transactions")[0]["Transactional id, producer"]
    assert shown.startswith(f"{HOSTILE_ID}\n")


def test_an_error_is_shown_as_it_is(browser: Browser, hostile: Shown) -> None:
    with visit(browser, f"file://{hostile.directory}/index.html") as seen:
        assert "<script>hacked=1</script><a href='javascript:hacked=1'>here</a>\n]]></pre><b>" in seen.text(
            ".hero pre"
        )


def test_a_link_from_the_heat_map_finds_the_batches_of_such_a_topic(browser: Browser, hostile: Shown) -> None:
    with visit(browser, f"file://{hostile.directory}/run.html#run={hostile.run_ids[0]}") as seen:
        seen.page.locator("tr", has_text="hacked").locator("a.cell").first.click()
        seen.page.wait_for_selector("h1:has-text('Batches on')")
        assert seen.table("1 batch found")[0]["Partition"].startswith(SEEN_TOPIC)
