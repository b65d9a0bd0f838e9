"""Data Docs: whole in themselves, the same every time, safe for any name."""

import re

from tests.expectations.conftest import Judge
from tests.expectations.runs import run

HOSTILE = "<script>alert(1)</script>"


def test_there_is_a_page_for_every_suite_and_one_for_all(judged: Judge) -> None:
    pages = judged(run()).pages
    assert set(pages) == {
        "index.html", "sources.html", "batches.html", "records.html", "transactions.html", "states.html",
        "runs.html", "answers.html", "duplicates.html",
    }  # fmt: skip
    assert set(re.findall(r'href="(\w+\.html)"', pages["index.html"])) == set(pages) - {"index.html"}


def test_no_page_asks_for_anything_outside(judged: Judge) -> None:
    for page in judged(run(partition={"rows": 79})).pages.values():
        assert "http:" not in page
        assert "https:" not in page
        assert not re.search(r"<(script|link|img|iframe)\b|@import|url\(", page)


def test_the_same_run_gives_the_same_pages(judged: Judge) -> None:
    facts = run(partition={"rows": 79})
    assert judged(facts).pages == judged(facts).pages


def test_a_page_shows_the_sentence_and_the_place_of_a_failure(judged: Judge) -> None:
    pages = judged(run(partition={"rows": 79, "topic": "payments"})).pages
    sentence = "exactly as many rows as the committed batches of the run hold records"
    for name in ("index.html", "records.html"):
        assert sentence in pages[name]
        assert "payments" in pages[name]


def test_a_hostile_name_is_only_text(judged: Judge) -> None:
    for page in judged(run(partition={"rows": 79, "topic": HOSTILE})).pages.values():
        assert HOSTILE not in page
