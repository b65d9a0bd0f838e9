"""What the pages say is what the published tables hold."""

from collections import Counter
from datetime import timedelta

import duckdb
import pytest
from playwright.sync_api import Browser

from spark_jobs.config.audit import ExpectationName
from spark_jobs.kafka.producers.verdict import Verdict
from spark_jobs.lake.iceberg.catalog import open_catalog
from spark_jobs.lake.iceberg.holdings import topic_tables
from spark_jobs.pipeline.report.topics import queries
from spark_jobs.sample.story import RUN_DATES
from tests.browser.sample_lake import BUSY_TOPIC, FAILED_RUN_DATE, FORGOTTEN_PRODUCER, IDLE_TOPIC, Shown
from tests.browser.visit import Visit, visit
from tests.e2e.tables import Records, own_rows
from tests.pipeline.resolve.run_lake import FIRST_DAY

LAST = RUN_DATES[-1]
ONLY_SOMETIMES = 4
"""Expectations of runs with business ids, and with the answers of a broker."""


def of_run(sample: Shown, table: str) -> Records:
    return [row for row in own_rows(sample.settings, table) if row["run_date"] == LAST]


def published_records(sample: Shown) -> Counter[str]:
    """Rows by topic, as DuckDB counts them in the files of the tables."""
    found: Counter[str] = Counter()
    with open_catalog(sample.settings) as catalog:
        for name in catalog.list_tables(sample.settings.catalog.topics):
            table = catalog.load_table(name)
            files = [task.file.file_path for task in table.scan().plan_files()]
            dates = duckdb.read_parquet(files).to_arrow_table().column("run_date").to_pylist()
            found[table.properties["onceover.topic"]] = dates.count(LAST)
    return found


def card(seen: Visit, title: str) -> str:
    return seen.page.locator(".card", has=seen.page.locator("h3", has_text=title)).inner_text()


def number(text: str) -> int:
    return int(text.split(maxsplit=1)[0].replace(",", ""))


def test_the_overview_shows_the_last_published_run(browser: Browser, sample: Shown) -> None:
    verdicts = Counter(row["verdict"] for row in of_run(sample, "batches"))
    outcomes = Counter(row["outcome"] for row in of_run(sample, "transactions"))
    kinds = Counter(row["kind"] for row in of_run(sample, "quarantine"))
    with visit(browser, f"file://{sample.directory}/index.html") as seen:
        assert f"{verdicts['duplicate'] + verdicts['stale_duplicate']} retries" in card(
            seen, "Duplicates caught"
        )
        assert f"{verdicts.total() - verdicts['overlap']:,} batches" in card(seen, "New batches")
        assert f"{verdicts['overlap']} known from an earlier run" in card(seen, "New batches")
        refused = sum(verdicts[each.value] for each in Verdict if each.is_refused)
        assert f"{refused} batches" in card(seen, "Batches refused")
        assert f"{outcomes['committed']} committed, {outcomes['aborted']} aborted" in card(
            seen, "Transactions ended"
        )
        assert f"{outcomes['ongoing']} transactions" in card(seen, "Open and hanging")
        assert f"{kinds.total()} rows" in card(seen, "Quarantine")
        by_topic = {row["Topic"]: row["Records"] for row in seen.table("Topics with their last")}
    published = published_records(sample)
    assert {topic: by_topic[topic] for topic in ("orders", "payments", "shipments")} == {
        topic: str(published[topic]) for topic in ("orders", "payments", "shipments")
    }


def test_a_run_counts_records_and_verdicts_as_the_tables_do(browser: Browser, sample: Shown) -> None:
    batches = of_run(sample, "batches")
    with visit(browser, f"file://{sample.directory}/run.html#run={sample.run_ids[-1]}") as seen:
        assert f"{published_records(sample).total():,} records" in seen.text("dl.facts")
        heat = seen.table("Batches by partition and verdict")
    found = Counter[tuple[str, str]]()
    for row in heat:
        for title, cell in row.items():
            if title not in {"Partition", "Records", "LSO lag"} and number(cell):
                found[row["Partition"], title[2:].replace(" ", "_")] += number(cell)
    assert found == Counter((f"{row['topic']}-{row['partition']}", row["verdict"]) for row in batches)
    assert sum(number(row["Records"]) for row in heat) == published_records(sample).total()


def test_a_topic_shows_both_runs_its_partitions_and_keys(browser: Browser, sample: Shown) -> None:
    with visit(browser, f"file://{sample.directory}/topic.html") as seen:
        seen.page.click("text=orders")
        seen.page.wait_for_selector("h1:has-text('orders')")
        partitions = seen.table(f"Partitions on {LAST}")
        keys = seen.table("The most frequent keys")
        seen.page.locator("figure", has_text="Volume").locator("summary").click()
        volume = seen.table("Volume, records published per run")
    assert sum(number(row["Records"]) for row in partitions) == published_records(sample)["orders"]
    assert [row["Run date"] for row in volume] == [str(run_date) for run_date in reversed(RUN_DATES)]
    assert number(volume[0]["records"]) == published_records(sample)["orders"]
    assert all(row["Key"].startswith("order-") for row in keys)


def test_a_run_shows_duplicates_by_producer_and_kind(browser: Browser, sample: Shown) -> None:
    found = Counter((row["topic"], row["kind"]) for row in of_run(sample, "duplicates"))
    with visit(browser, f"file://{sample.directory}/run.html#run={sample.run_ids[-1]}") as seen:
        shown = seen.table("Duplicates by producer and kind")
    assert {(row["Topic"], row["Kind"].split()[0]): number(row["Duplicates"]) for row in shown} == found
    assert found
    assert all(row["Producer"] for row in shown)


def test_producers_are_held_to_what_they_sent(browser: Browser, sample: Shown) -> None:
    duplicates = Counter(
        str(row["producer_id"]) for row in of_run(sample, "batches") if row["verdict"] == "duplicate"
    )
    with visit(browser, f"file://{sample.directory}/producers.html#run={sample.run_ids[-1]}") as seen:
        shown = {row["Producer"]: number(row["duplicate"]) for row in seen.table("Producers by duplicates")}
        seen.go(f"file://{sample.directory}/producers.html#run={sample.run_ids[0]}")
        late, fenced = seen.table("Producers by late retries"), seen.table("Fenced producers")
    assert shown == duplicates
    assert len(late) == 1
    assert fenced[0]["Producer"].split()[1] == "checkout-2"
    assert [int(epoch) for epoch in fenced[0]["Fenced by epochs"].split(", ")]


def test_open_transactions_are_listed_with_what_they_hold_back(browser: Browser, sample: Shown) -> None:
    [row] = [row for row in of_run(sample, "transactions") if row["outcome"] == "ongoing"]
    with visit(browser, f"file://{sample.directory}/transactions.html#run={sample.run_ids[-1]}") as seen:
        [shown] = seen.table("Open transactions")
        longest = seen.table("Decided transactions")
    assert shown["Transactional id"] == row["transactional_id"]
    assert number(shown["Holds back"]) == row["held_back"]
    assert row["sentence"] in shown["Why, and how to end it"]
    assert len(longest) > 1


def test_a_hanging_transaction_comes_with_the_command_that_ends_it(browser: Browser, hostile: Shown) -> None:
    rows = own_rows(hostile.settings, "transactions")
    [command] = [command for row in rows for command in row["abort_commands"]]
    with visit(browser, f"file://{hostile.directory}/transactions.html#run={hostile.run_ids[0]}") as seen:
        [shown] = seen.table("Hanging transactions")
    assert shown["Producer"] == f"{FORGOTTEN_PRODUCER} epoch 3"
    assert command in shown["Why, and how to end it"]


def test_a_run_that_the_audit_stopped_says_why_and_publishes_nothing(browser: Browser, sample: Shown) -> None:
    with visit(browser, f"file://{sample.directory}/index.html") as seen:
        assert f"Last run, {FAILED_RUN_DATE}" in seen.text(".hero")
        assert "Failed in audit" in seen.text(".hero")
        assert "1 critical expectation failed" in seen.text(".hero pre")
        seen.page.click(".hero a")
        seen.page.wait_for_selector("h1:has-text('Run of')")
        stale, failure = seen.table("2 expectations failed")
        steps = {row["Step"]: row["Status"].split()[-1] for row in seen.table("Steps of the run")}
    assert "source backup, nothing that no earlier run has read" in stale["Found"]
    assert "topic visits, partition 0" in failure["Found"]
    assert failure["Result"].startswith("✕ failed, critical")
    assert list(steps.values()) == [*["done"] * 7, "failed", "reached", "done"]


def test_the_strip_names_every_run_with_its_status(browser: Browser, sample: Shown) -> None:
    with visit(browser, f"file://{sample.directory}/index.html") as seen:
        days = seen.page.locator(".strip li").all_inner_texts()
    assert [day.split("\n")[-1] for day in days] == [
        *(f"{run_date}: published" for run_date in RUN_DATES),
        f"{FAILED_RUN_DATE}: failed",
    ]


def test_overlap_of_copies_is_neither_new_nor_a_duplicate(browser: Browser, copied: Shown) -> None:
    day = FIRST_DAY + timedelta(days=1)
    rows = [row for row in own_rows(copied.settings, "batches") if row["run_date"] == day]
    verdicts = Counter(row["verdict"] for row in rows)
    assert verdicts["accepted"] == 1
    assert verdicts["overlap"] > 0
    with visit(browser, f"file://{copied.directory}/index.html") as seen:
        assert "1 batches" in card(seen, "New batches")
        assert f"100 % accepted, and {verdicts['overlap']} known from an earlier" in card(seen, "New batches")
        assert "0 retries" in card(seen, "Duplicates caught")
        assert {row["Topic"]: row["Duplicates"] for row in seen.table("Topics with their last")} == {
            BUSY_TOPIC: "0",
            IDLE_TOPIC: "0",
        }
        seen.go(f"file://{copied.directory}/topic.html")
        topics = {row["Topic"]: row for row in seen.table("Topics of the last")}
    assert {name: (row["New batches"], row["Duplicates"]) for name, row in topics.items()} == {
        BUSY_TOPIC: ("1", "0"),
        IDLE_TOPIC: ("0", "0"),
    }


def test_an_idle_topic_has_no_news(browser: Browser, copied: Shown) -> None:
    with visit(browser, f"file://{copied.directory}/topic.html") as seen:
        seen.page.click(f"text={IDLE_TOPIC}")
        seen.page.wait_for_selector(f"h1:has-text('{IDLE_TOPIC}')")
        assert f"new batches or records in 1, the last on {FIRST_DAY}." in seen.text("main")
        seen.go(f"file://{copied.directory}/run.html#run={copied.run_ids[-1]}")
        assert "Topics without new batches, which had some: idle" in seen.text("main")


def test_an_expectation_that_is_off_is_shown_as_off(browser: Browser, copied: Shown) -> None:
    with visit(browser, f"file://{copied.directory}/run.html#run={copied.run_ids[-1]}") as seen:
        seen.page.click("summary:has-text('1 expectation off')")
        [row] = seen.table("Not evaluated, because their severity is off")
        assert row["Result"] == "○ off"
        assert "about as many records" in row["Expectation"]
        seen.go(f"file://{copied.directory}/index.html")
        assert f"All {len(ExpectationName) - 1 - ONLY_SOMETIMES} expectations met." in seen.text(".hero")


def test_data_docs_are_one_click_away(browser: Browser, sample: Shown) -> None:
    with visit(browser, f"file://{sample.directory}/run.html#run={sample.run_ids[-1]}") as seen:
        seen.page.click("text=Data Docs of this audit")
        seen.page.wait_for_selector(f"h1:has-text('{sample.run_ids[-1]}')")
        seen.expect("getComputedStyle(document.body).maxWidth != 'none'")
    assert seen.complaints == []


@pytest.mark.parametrize("page", ["run", "producers", "transactions", "batches"])
def test_another_run_can_be_chosen_and_the_keyboard_stays_where_it_is(
    page: str, browser: Browser, sample: Shown
) -> None:
    with visit(browser, f"file://{sample.directory}/{page}.html#run={sample.run_ids[-1]}") as seen:
        seen.page.focus("#chosen-run")
        seen.page.select_option("#chosen-run", sample.run_ids[0])
        seen.page.wait_for_selector(f"h1:has-text('{RUN_DATES[0]}')")
        assert sample.run_ids[0] in seen.page.url
        seen.expect("document.activeElement.id == 'chosen-run'")


def test_a_topic_s_page_shows_its_table_and_how_to_query_it(browser: Browser, sample: Shown) -> None:
    tables = {table.topic: table for table in topic_tables(sample.settings)}
    with visit(browser, f"file://{sample.directory}/topic.html") as seen:
        seen.page.get_by_role("link", name="orders", exact=True).first.click()
        seen.page.wait_for_selector("#table")
        shown = seen.text("section:has(#table)")
    assert tables["orders"].name in shown
    assert tables["orders"].location in shown
    said = queries(sample.settings, tables["orders"])
    assert said["python"] in shown
    assert said["spark"] in shown
