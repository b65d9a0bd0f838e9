"""The batch explorer finds a batch without a server, and explains it as `onceover explain` does."""

import pytest
from playwright.sync_api import Browser

from spark_jobs.explain import ExplainedBatch, Question, explain
from spark_jobs.kafka.topic_partition import TopicPartition
from spark_jobs.lake.stores import open_lake
from tests.browser.sample_lake import Shown
from tests.browser.visit import Visit, visit

FORM = "form.search"


def answers(sample: Shown, question: Question) -> list[ExplainedBatch]:
    found = explain(open_lake(sample.settings), question, sample.run_ids[-1])
    return [answer for answer in found if isinstance(answer, ExplainedBatch)]


def find(seen: Visit, **wished: str) -> list[dict[str, str]]:
    """Fill the form in as a person does; waits for an answer that is drawn anew."""
    seen.page.evaluate(f"document.querySelector('{FORM}').dataset.old = true")
    for name, value in wished.items():
        control = seen.page.locator(f"form #{name}")
        control.select_option(value) if name in {"topic", "verdict"} else control.fill(value)
    seen.page.click("text=Find")
    seen.page.wait_for_selector(f"{FORM}:not([data-old])")
    return seen.table("")


@pytest.fixture
def batches(sample: Shown) -> str:
    return f"file://{sample.directory}/batches.html#run={sample.run_ids[-1]}"


def test_an_offset_finds_the_batch_that_holds_it_and_its_retry(
    browser: Browser, sample: Shown, batches: str
) -> None:
    duplicate = next(
        answer
        for answer in answers(sample, Question(partition=TopicPartition("visits", 0)))
        if answer.row["verdict"] == "duplicate" and answer.row["offset"] > 997
    )
    offset = duplicate.row["offset"]
    expected = answers(sample, Question(partition=TopicPartition("visits", 0), offset=offset))
    with visit(browser, batches) as seen:
        found = find(seen, topic="visits", partition="0", offset=str(offset))
    assert sorted(row["Explanation"] for row in found) == sorted(
        f"{answer.sentence}\n{answer.place}" for answer in expected
    )
    assert {row["Verdict"].split()[-1] for row in found} == {"accepted", "duplicate"}


def test_a_verdict_finds_all_of_its_batches(browser: Browser, batches: str) -> None:
    with visit(browser, batches) as seen:
        found = find(seen, verdict="invalid_transaction_state")
    assert [row["Partition"] for row in found] == ["orders-1"]
    assert "a broker answers INVALID_TXN_STATE" in found[0]["Explanation"]


def test_a_producer_finds_its_batches_alone(browser: Browser, sample: Shown, batches: str) -> None:
    with visit(browser, batches) as seen:
        found = find(seen, producer="4008")
    assert {row["Producer"] for row in found} == {"4008 epoch 0"}


def test_a_search_loads_only_files_that_can_hold_the_batch(browser: Browser, batches: str) -> None:
    with visit(browser, f"{batches}&verdict=corrupt") as seen:
        assert seen.table("1 batch found")
        loaded = [url for url in seen.asked if "/batches/" in url]
    assert len(loaded) == 1


def test_without_a_wish_the_batches_that_were_not_simply_taken_come_first(
    browser: Browser, batches: str
) -> None:
    with visit(browser, batches) as seen:
        verdicts = [row["Verdict"] for row in seen.table("The first")]
        assert "All 1,639 batches of the run are here." in seen.text("main")
    assert verdicts.index("≡ overlap") >= 19
    assert all("accepted" not in verdict for verdict in verdicts[:19])


def test_a_batch_that_is_not_here_comes_with_the_command_that_asks_the_tables(
    browser: Browser, sample: Shown, batches: str
) -> None:
    with visit(browser, f"{batches}&topic=orders&partition=1&offset=99999") as seen:
        said = seen.text("#results")
    assert f"onceover explain orders 1 --run {sample.run_ids[-1]} --offset 99999" in said
