"""What the pages say is what the published tables hold."""

import re
import subprocess
import sys
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import duckdb
import pytest
from playwright.sync_api import Browser

from spark_jobs.config.audit import ExpectationName
from spark_jobs.kafka.producers.verdict import Verdict
from spark_jobs.lake.iceberg.catalog import open_catalog
from spark_jobs.lake.iceberg.holdings import topic_tables
from spark_jobs.lake.ledger import list_runs
from spark_jobs.lake.manifest import read_run_manifest
from spark_jobs.lake.stores import open_lake
from spark_jobs.pipeline.report.topics import queries
from spark_jobs.sample.story import RUN_DATES
from tests.browser.sample_lake import (
    BUSY_TOPIC,
    FAILED_RUN_DATE,
    FORGOTTEN_PRODUCER,
    HELD_TOPIC,
    IDLE_TOPIC,
    MISSING,
    OBJECTIVE,
    TIMELY_TOPIC,
    Shown,
)
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
    producer = f"{row['producer_id']} epoch {row['producer_epoch']}"
    assert shown["Transactional id, producer"] == f"{row['transactional_id']}\n{producer}"
    assert number(shown["Holds back"]) == row["held_back"]
    assert row["sentence"] in shown["Why, and how to end it"]
    assert len(longest) > 1


def test_a_hanging_transaction_comes_with_the_command_that_ends_it(browser: Browser, hostile: Shown) -> None:
    rows = own_rows(hostile.settings, "transactions")
    [command] = [command for row in rows for command in row["abort_commands"]]
    with visit(browser, f"file://{hostile.directory}/transactions.html#run={hostile.run_ids[0]}") as seen:
        [shown] = seen.table("Hanging transactions")
    assert shown["Transactional id, producer"] == f"unknown\n{FORGOTTEN_PRODUCER} epoch 3"
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


def rows_of(sample: Shown, topic: str, *columns: str) -> list[Any]:
    """Rows of a topic's table, as DuckDB reads its files."""
    with open_catalog(sample.settings) as catalog:
        files = [each.file.file_path for each in catalog.load_table(f"topics.{topic}").scan().plan_files()]
    named = ", ".join(f'"{column}"' for column in columns)
    return duckdb.read_parquet(files).project(named).fetchall()


def newest_of(sample: Shown, topic: str) -> datetime:
    newest: datetime = max(time for (time,) in rows_of(sample, topic, "timestamp"))
    return newest


def shown_time(time: datetime) -> str:
    return f"{time.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


@pytest.mark.parametrize(
    ("age", "said"),
    [
        (OBJECTIVE - timedelta(hours=1), "1 d 1 h ago\n✓ within 1 d 2 h"),
        (OBJECTIVE + timedelta(hours=1), "1 d 3 h ago\n✕ older than 1 d 2 h"),
        (timedelta(hours=-1), "in the future\n✓ within 1 d 2 h"),
    ],
)
def test_a_topic_shows_its_newest_record_and_whether_it_is_recent_enough(
    age: timedelta, said: str, browser: Browser, sample: Shown
) -> None:
    newest = newest_of(sample, TIMELY_TOPIC)
    with visit(browser, f"file://{sample.directory}/index.html", now=newest + age) as seen:
        overview = {row["Topic"]: row["Newest record"] for row in seen.table("Topics with their last")}
        late = seen.page.locator("#late").all_inner_texts()
        seen.go(f"file://{sample.directory}/topic.html")
        topics = {row["Topic"]: row["Newest record"] for row in seen.table("Topics of the last")}
        seen.page.click(f"text={TIMELY_TOPIC}")
        seen.page.wait_for_selector("#newest")
        assert seen.text("#newest") == f"{shown_time(newest)}\n{said}"
    assert overview[TIMELY_TOPIC] == topics[TIMELY_TOPIC] == f"{shown_time(newest)}\n{said}"
    assert [TIMELY_TOPIC in text for text in late] == [True] * (age > OBJECTIVE)
    assert overview["orders"].startswith(shown_time(newest_of(sample, "orders")))
    assert "than" not in overview["orders"]


def test_sources_are_listed_with_what_was_new_in_them(browser: Browser, sample: Shown) -> None:
    run_id = sample.run_ids[-1]
    entries = read_run_manifest(open_lake(sample.settings), run_id).entries
    with visit(browser, f"file://{sample.directory}/run.html#run={run_id}") as seen:
        rows = {row["Source"]: row for row in seen.table("Sources, and when they were copied")}
    assert {name: row["New objects"] for name, row in rows.items()} == {
        f"{source.name}\n{source.kind}": f"{sum(not each.seen for each in found)}\nof {len(found)}"
        for source in sample.settings.sources
        for found in [[each for each in entries if each.source == source.name]]
    }
    assert {row["Copied"] for row in rows.values()} == {"not recorded"}
    assert all(row["Newest object"].endswith("ago") for row in rows.values())


def test_a_source_is_shown_with_the_times_of_its_copy(browser: Browser, hostile: Shown) -> None:
    with visit(browser, f"file://{hostile.directory}/run.html#run={hostile.run_ids[0]}") as seen:
        [row] = seen.table("Sources, and when they were copied")
    assert row["Copied"].startswith(f"{FIRST_DAY} 23:59 UTC to\n{FIRST_DAY} 23:59 UTC\n")


def test_the_overview_lists_the_sources_of_the_last_run(browser: Browser, held: Shown) -> None:
    with visit(browser, f"file://{held.directory}/index.html") as seen:
        [row] = seen.table("Sources, and when they were copied")
    assert row["Source"] == "broker\nbroker-log"
    assert row["Where"] == held.settings.sources[0].root


def test_a_gap_is_shown_with_its_offsets_and_what_it_holds(browser: Browser, held: Shown) -> None:
    with visit(browser, f"file://{held.directory}/run.html") as seen:
        [gap] = seen.table("Offsets that were in no copy: 1 range")
    assert gap["Partition"] == f"{HELD_TOPIC}-0"
    assert gap["Status"].endswith("open")
    assert re.findall(r"\d+", gap["Missing offsets"]) == [str(MISSING[0]), str(MISSING[-1])]
    assert (gap["Count"], gap["Held batches"], gap["Found on"]) == (str(len(MISSING)), "1", str(FIRST_DAY))


def test_any_two_runs_can_be_compared(browser: Browser, sample: Shown) -> None:
    [failed] = [each.run_id for each in list_runs(open_lake(sample.settings)) if each.message]
    first, last = sample.run_ids
    with visit(browser, f"file://{sample.directory}/run.html#run={last}") as seen:
        assert seen.table(f"Against the run of {RUN_DATES[0]}")
        seen.page.select_option("#compared-run", failed)
        rows = {row["Number"]: row for row in seen.table(f"Against the run of {FAILED_RUN_DATE}")}
        assert f"run={last}" in seen.page.url
        assert f"with={failed}" in seen.page.url
        seen.go(f"file://{sample.directory}/run.html#run={first}")
        assert "There is no run of an earlier date." in seen.text("main")
        seen.page.select_option("#compared-run", last)
        reverse = {row["Number"]: row for row in seen.table(f"Against the run of {LAST}")}
    published = published_records(sample).total()
    assert number(rows["Records published"][str(LAST)]) == published
    assert number(reverse["Records published"][str(LAST)]) == published
    assert number(reverse["Records published"][str(RUN_DATES[0])]) > 0


def test_a_key_gives_queries_that_find_its_records(browser: Browser, sample: Shown) -> None:
    rows = rows_of(sample, "orders", "key", "partition", "offset")
    key = Counter(key for key, *_ in rows).most_common(1)[0][0]
    expected = sorted((partition, offset) for found, partition, offset in rows if found == key)
    with visit(browser, f"file://{sample.directory}/topic.html") as seen:
        seen.page.get_by_role("link", name="orders", exact=True).first.click()
        seen.page.fill("#find-key", key.decode())
        python, spark = seen.page.locator("#key-queries pre").all_inner_texts()
        seen.page.fill("#find-key", f"0x{key.hex()}")
        assert seen.page.locator("#key-queries pre").all_inner_texts() == [python, spark]
        seen.page.fill("#find-key", "")
        assert seen.page.locator("#key-queries pre").count() == 0
    printed = subprocess.run(
        [sys.executable, "-c", python], capture_output=True, text=True, check=True
    ).stdout
    pairs = re.findall(r"'partition': (\d+), 'offset': (\d+)", printed)
    assert sorted((int(partition), int(offset)) for partition, offset in pairs) == expected
    condition = spark.partition(" WHERE ")[2]
    with open_catalog(sample.settings) as catalog:
        files = [each.file.file_path for each in catalog.load_table("topics.orders").scan().plan_files()]
    assert len(duckdb.read_parquet(files).filter(condition).fetchall()) == len(expected)
